// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetches a kernel of Debian's into the cache: unpacked, never installed. Nothing of the machine
//! is changed.

use super::apt::{Apt, FetchError, ORIGIN, field, file};
use super::cached::{self, sha256};
use super::kernel::{self, Debian, Fetched};
use std::fs::{self, File};
use std::path::Path;

/// Folders in which a kernel is fetched or modules are built, each with the process's id behind it.
pub(super) const WORK: &[&str] = &["fetch", "build"];

/// Keeps other programs from fetching the same kernel until it is dropped: whoever came first
/// would find it replaced while it is read.
fn alone(cache: &Path, which: Debian) -> Result<File, FetchError> {
    fs::create_dir_all(cache).map_err(file("create", cache))?;
    let path = cache.join(format!("{}.lock", which.name.replace(':', "-")));
    let lock = File::create(&path).map_err(file("create", &path))?;
    lock.lock().map_err(file("lock", &path))?;
    Ok(lock)
}

/// The kernel that is in the cache, or the one that `fetch` brings there, by one program at a
/// time: two runs that miss the same one at the same time wait for each other, and the second
/// finds it.
///
/// # Errors
/// [`FetchError`].
pub fn unless_there(
    cache: &Path,
    which: Debian,
    fetch: impl FnOnce() -> Result<Fetched, FetchError>,
) -> Result<Fetched, FetchError> {
    let _alone = alone(cache, which)?;
    match kernel::fetched(cache, which.name) {
        Some(there) => Ok(there),
        None => fetch(),
    }
}

/// Fetches a kernel into the cache, in place of one that is there. `tell` hears what is being done.
///
/// # Errors
/// [`FetchError`].
pub fn anew(cache: &Path, which: Debian, tell: &mut dyn FnMut(&str)) -> Result<Fetched, FetchError> {
    let _alone = alone(cache, which)?;
    fetch(cache, which, tell)
}

/// The same without looking whether others do so too.
///
/// # Errors
/// [`FetchError`].
pub fn fetch(cache: &Path, which: Debian, tell: &mut dyn FnMut(&str)) -> Result<Fetched, FetchError> {
    cached::sweep(cache, WORK);
    let target = kernel::folder(cache, which.name);
    let work = cache.join(format!("fetch-{}", std::process::id()));
    let result = fetch_into(&work, which, tell).and_then(|fetched| {
        // The new one whole before the old one goes.
        if target.exists() {
            fs::remove_dir_all(&target).map_err(file("remove", &target))?;
        }
        let parent = target.parent().unwrap_or(cache);
        fs::create_dir_all(parent).map_err(file("create", parent))?;
        fs::rename(work.join("kernel"), &target).map_err(file("rename to", &target))?;
        Ok(fetched)
    });
    let _ = fs::remove_dir_all(&work);
    result
}

/// Where the packages that Debian splits have a kernel's image.
const SPLIT: &str = "usr/lib/modules";

fn fetch_into(work: &Path, which: Debian, tell: &mut dyn FnMut(&str)) -> Result<Fetched, FetchError> {
    tell(&format!("{}: reading the list of packages of {}", which.name, which.suite));
    let apt = Apt::set_up(work, which.suite)?;
    let none = || FetchError::NoPackage { package: which.package.to_owned(), suite: which.suite };
    let shown = apt.show(which.package, None)?;
    let depends = field(&shown, "Depends").ok_or_else(none)?;
    let image = depends.split([',', ' ']).find(|word| word.starts_with("linux-image-")).ok_or_else(none)?;
    let shown = apt.show(image, None)?;
    let version = field(&shown, "Version").ok_or_else(none)?;
    let parts = parts(&shown).into_iter().map(|part| apt.show(part, Some(version))).collect::<Result<Vec<_>, _>>()?;
    let size = |shown: &str| field(shown, "Size").and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
    let size = parts.iter().map(|shown| size(shown)).fold(size(&shown), u64::saturating_add);
    tell(&format!("{}: fetching {image} {version}, {} MB", which.name, size / 1_000_000));
    let package = apt.download(&shown)?;
    let parts = parts.iter().map(|shown| apt.download(shown)).collect::<Result<Vec<_>, _>>()?;
    tell(&format!("{}: unpacking", which.name));
    let root = work.join("kernel");
    for package in [&package].into_iter().chain(&parts) {
        package.unpack(&root)?;
    }
    // What no guest starts.
    let _ = fs::remove_dir_all(root.join("usr/share"));
    let boot = root.join("boot");
    bring_image(&root, &boot)?;
    let mut images = fs::read_dir(&boot).map_err(file("list", &boot))?.flatten().map(|entry| entry.file_name());
    let image_file = images.find(|name| name.to_string_lossy().starts_with("vmlinuz-")).ok_or_else(none)?;
    let path = boot.join(&image_file);
    let modules =
        ["usr/lib/modules", "lib/modules"].map(Path::new).into_iter().find(|folder| root.join(folder).is_dir());
    let sums =
        modules.map(|folder| cached::sums(&root, folder)).transpose().map_err(file("read the modules in", &root))?;
    let sums = cached::listed(&sums.unwrap_or_default());
    let list = root.join(kernel::MODULE_SUMS);
    cached::write(&list, sums.as_bytes()).map_err(file("write", &list))?;
    let fetched = Fetched {
        name: which.name.to_owned(),
        package: package.name,
        version: package.version,
        package_sha256: package.sha256,
        image_sha256: sha256::of(&fs::read(&path).map_err(file("read", &path))?),
        image: Path::new("boot").join(image_file),
        modules_sha256: sha256::of(sums.as_bytes()),
        origin: ORIGIN.to_owned(),
        built: Vec::new(),
    };
    // Last: it says that all is there.
    note(&root, &fetched)?;
    Ok(fetched)
}

/// The packages that hold a kernel's image and its modules, where the package of the kernel holds
/// neither: Debian splits them from Linux 7 on. `shown` is what apt-cache shows of the package of
/// the kernel. Pure.
pub fn parts(shown: &str) -> Vec<&str> {
    let depends = field(shown, "Depends").unwrap_or_default();
    let names = depends.split(',').filter_map(|one| one.split_whitespace().next());
    names.filter(|name| ["linux-binary-", "linux-modules-"].iter().any(|part| name.starts_with(part))).collect()
}

/// Puts a kernel's image where kernels have it before Linux 7, from its modules' folder.
fn bring_image(root: &Path, boot: &Path) -> Result<(), FetchError> {
    let folders = fs::read_dir(root.join(SPLIT)).into_iter().flatten().flatten();
    for folder in folders {
        let image = folder.path().join("vmlinuz");
        if image.is_file() {
            fs::create_dir_all(boot).map_err(file("create", boot))?;
            let to = boot.join(format!("vmlinuz-{}", folder.file_name().to_string_lossy()));
            fs::rename(&image, &to).map_err(file("rename to", &to))?;
        }
    }
    Ok(())
}

/// Writes down what a kernel's folder holds.
pub(super) fn note(root: &Path, fetched: &Fetched) -> Result<(), FetchError> {
    let note = root.join("kernel.json");
    let bytes = serde_json::to_vec_pretty(fetched).unwrap_or_default();
    cached::write(&note, &bytes).map_err(file("write", &note))
}
