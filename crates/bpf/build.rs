// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the programs in `programs/` by clang, each to an object in the build's folder, with the
//! headers of the libbpf that will load them.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    for changed in ["CLANG", "DEP_BPF_INCLUDE"] {
        println!("cargo:rerun-if-env-changed={changed}");
    }
    for changed in ["programs", "include"] {
        println!("cargo:rerun-if-changed={changed}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    let headers = env::var("DEP_BPF_INCLUDE").map_err(|_| "libbpf-sys does not say where its headers are")?;
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    for entry in std::fs::read_dir("programs")? {
        let source = entry?.path();
        let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = name.strip_suffix(".bpf.c") else { continue };
        // The XDP program is built a second time, with calls that ask the device.
        let variants: &[(&str, &[&str])] = match name {
            "xdp" => &[("", &[]), ("_hints", &["-DDEVICE_HINTS"])],
            _ => &[("", &[])],
        };
        for (suffix, defined) in variants {
            // BTF comes with -g. A program of this version runs on Linux 5.11 and later.
            let status = Command::new(&clang)
                .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-Iprograms", "-Iinclude", "-I"])
                .arg(&headers)
                .args(*defined)
                .arg("-c")
                .arg(&source)
                .arg("-o")
                .arg(out.join(format!("{name}{suffix}.bpf.o")))
                .status()
                .map_err(|error| format!("{clang} cannot be run: {error}: run packaging/setup.sh build"))?;
            if !status.success() {
                return Err(format!("{clang} could not compile {}", source.display()).into());
            }
        }
    }
    Ok(())
}
