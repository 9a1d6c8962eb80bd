// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that the user names for a report or an export: made anew next to its place and renamed,
//! so that a reader at the wrong moment sees the whole old file, and so that nothing is written
//! through anybody's link.

use crate::held::Held;
use crate::{StoreError, way};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file, while it is written. Dropped before [`Output::finish`], it leaves what was there.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
    /// Folder, temporary name, name; `None` for a device or a pipe, which is written as it is.
    place: Option<(Held, OsString, OsString)>,
}

impl Output {
    /// Opens the place `path`. A link is followed if it is root's or the user's own: it then keeps
    /// pointing where it points.
    ///
    /// # Errors
    /// [`StoreError::Link`] for a link of somebody else's; as root, [`StoreError::Foreign`] and
    /// [`StoreError::OpenToOthers`] for a folder that is not root's or of the user who called
    /// sudo; [`StoreError::NotAFile`]; [`StoreError::Io`].
    pub fn create(path: &Path) -> Result<Output, StoreError> {
        let failed = |errno: Errno| StoreError::io("write", path)(errno.into());
        let mut at = path.to_owned();
        let mut links = 0;
        let (folder, name) = loop {
            let way::WayEnd { folder, name } = way::walk(&at, false)?;
            let name = name.ok_or_else(|| StoreError::NotAFile { path: path.to_owned() })?;
            match way::about(&folder, &name) {
                Err(Errno::NOENT) => break (folder, name),
                Err(errno) => return Err(failed(errno)),
                Ok(about) if way::is_link(&about) => {
                    // `/dev/stdout` and the like end in a link of the kernel's, to what has no
                    // name of its own.
                    if fs::fstatfs(&folder).is_ok_and(|of| of.f_type == fs::PROC_SUPER_MAGIC) {
                        return Output::through(path);
                    }
                    links += 1;
                    let to = way::target(&folder, &name, path, links)?;
                    at = match (to.is_absolute(), at.parent()) {
                        (false, Some(parent)) => parent.join(to),
                        _ => to,
                    };
                }
                Ok(about) => match FileType::from_raw_mode(about.st_mode) {
                    FileType::RegularFile => break (folder, name),
                    FileType::Directory => return Err(StoreError::NotAFile { path: path.to_owned() }),
                    // A pipe or a device cannot be replaced.
                    _ => {
                        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                        let file = fs::openat(&folder, &name, flags, Mode::empty()).map_err(failed)?;
                        return Ok(Output { path: path.to_owned(), file: File::from(file), place: None });
                    }
                },
            }
        };
        let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = way::step(&folder, OsStr::new("."), OFlags::RDONLY).map_err(failed)?;
        let held = Held::of(folder, beside.to_owned());
        way::check_for_a_file(&held.about()?, beside)?;
        let (temporary, file) = held.temporary(&name)?;
        Ok(Output { path: path.to_owned(), file, place: Some((held, temporary, name)) })
    }

    fn through(path: &Path) -> Result<Output, StoreError> {
        let file = File::options().write(true).open(path).map_err(StoreError::io("write", path))?;
        Ok(Output { path: path.to_owned(), file, place: None })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn finish(mut self) -> Result<(), StoreError> {
        if let Some((held, temporary, name)) = self.place.take() {
            let put = self.file.sync_all().map_err(StoreError::io("sync", &self.path));
            let put = put.and_then(|()| held.rename(&temporary, &name));
            if put.is_err() {
                held.remove(&temporary);
            }
            return put;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((held, temporary, _)) = &self.place {
            held.remove(temporary);
        }
    }
}

/// Writes `bytes` to the place that the user named.
///
/// # Errors
/// As [`Output::create`].
pub fn write_output(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut output = Output::create(path)?;
    output.write_all(bytes).map_err(StoreError::io("write", path))?;
    output.finish()
}
