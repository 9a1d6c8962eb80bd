// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the page's script and style together: uPlot as npm installed it, licence and all, and our
//! own modules in one scope.

use std::error::Error;
use std::fs;
use std::path::Path;

/// Our modules, each after those it uses.
const MODULES: [&str; 9] =
    ["data.js", "plot.js", "distribution.js", "time.js", "heat.js", "strips.js", "gates.js", "copies.js", "page.js"];

fn main() -> Result<(), Box<dyn Error>> {
    let page = Path::new("page");
    let uplot = page.join("node_modules/uplot");
    for watched in ["page/src", "page/style.css", "page/package-lock.json", "page/node_modules/uplot/package.json"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let foreign = |name: &str| {
        fs::read_to_string(uplot.join(name)).map_err(|error| {
            let path = uplot.join(name);
            format!("reading crates/report/{}: {error}: uPlot is not installed; run `make build`, which fetches it with npm, once", path.display())
        })
    };
    let licence = match foreign("LICENSE") {
        Ok(licence) => licence,
        Err(why) => {
            println!("cargo::error={why}");
            return Ok(());
        }
    };
    let mut script = format!("/* uPlot\n{}\n*/\n{}\n", licence.trim(), foreign("dist/uPlot.iife.min.js")?.trim());
    script += "(() => {\n\"use strict\";\n";
    for module in MODULES {
        script += &fs::read_to_string(page.join("src").join(module))?;
    }
    script += "})();\n";
    let style = format!(
        "/* uPlot, see the licence in the script */\n{}\n{}",
        foreign("dist/uPlot.min.css")?.trim(),
        fs::read_to_string(page.join("style.css"))?
    );
    // Either would end its element early.
    if script.contains("</script") || style.contains("</style") {
        println!("cargo::error=the page's script or style holds its own end tag");
    }
    let out = std::env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("page.js"), script)?;
    fs::write(Path::new(&out).join("page.css"), style)?;
    Ok(())
}
