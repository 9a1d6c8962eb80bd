// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the first process of a machine does: file systems, modules, the TAI offset, switching off.
//! For guests; nothing here is ever called on a host.

use crate::{SysError, check};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

/// True if this is the machine's first process, started by the kernel as its init, under the name
/// `init`. A container's first process may be tardy as well, and is called so.
pub fn is_init() -> bool {
    std::process::id() == 1 && called("init")
}

/// True if this program was started under that name.
pub fn called(name: &str) -> bool {
    std::env::args_os().next().is_some_and(|first| Path::new(&first).file_name().is_some_and(|last| last == name))
}

/// Mounts a file system that needs no device.
///
/// # Errors
/// The kernel's.
pub fn mount(kind: &str, on: &str) -> Result<(), SysError> {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let (source, target, kind) = (text(kind), text(on), text(kind));
    // SAFETY: three strings that end with a zero and live for the call; no flags, no data.
    let result = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
    check(i64::from(result), "mount", || on.to_owned())?;
    Ok(())
}

/// Loads a module from its file.
///
/// # Errors
/// The kernel's; that it is loaded already is none.
pub fn load_module(path: &Path) -> Result<(), SysError> {
    let on = || path.display().to_string();
    let file = File::open(path).map_err(|source| SysError { call: "open", on: on(), source })?;
    // SAFETY: an open descriptor, an empty string that ends with a zero, no flags.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    match check(result, "finit_module", on) {
        Err(error) if error.errno() == libc::EEXIST => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Gives the kernel's random number generator bytes that count as entropy, so that nobody waits for
/// it. Only for a guest's kernel, whose random numbers are to be the same each time.
///
/// # Errors
/// The kernel's.
pub fn add_entropy(bytes: &[u8; 64]) -> Result<(), SysError> {
    /// `struct rand_pool_info` with its buffer (random(4)).
    #[repr(C)]
    struct Pool {
        entropy_bits: i32,
        bytes: i32,
        buffer: [u8; 64],
    }
    // _IOW('R', 0x03, int[2])
    const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
    let on = || "/dev/random".to_owned();
    let device = File::options().write(true).open("/dev/random").map_err(|source| SysError {
        call: "open",
        on: on(),
        source,
    })?;
    let pool = Pool { entropy_bits: 8 * 64, bytes: 64, buffer: *bytes };
    // SAFETY: an open descriptor; the kernel only reads `pool`, which says how long its buffer is.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &raw const pool) };
    check(i64::from(result), "RNDADDENTROPY", on)?;
    Ok(())
}

/// Sets the kernel's TAI − UTC offset. Only for a guest's kernel: the offset holds for the whole
/// machine.
///
/// # Errors
/// The kernel's.
pub fn set_tai_offset(seconds: i32) -> Result<(), SysError> {
    // SAFETY: timex is plain data; all zero is valid.
    let mut timex: libc::timex = unsafe { mem::zeroed() };
    timex.modes = libc::ADJ_TAI;
    timex.constant = i64::from(seconds);
    // SAFETY: `timex` is valid and writable for the call.
    let result = unsafe { libc::adjtimex(&mut timex) };
    check(i64::from(result), "adjtimex", || format!("TAI offset {seconds} s"))?;
    Ok(())
}

/// Makes a terminal carry bytes as they are, and nothing but them.
///
/// # Errors
/// The kernel's, for one that it is no terminal.
pub fn make_raw(terminal: &File) -> Result<(), SysError> {
    let on = || "a serial port".to_owned();
    // SAFETY: termios is plain data; all zero is valid.
    let mut settings: libc::termios = unsafe { mem::zeroed() };
    // SAFETY: an open descriptor; `settings` is writable for the call.
    check(i64::from(unsafe { libc::tcgetattr(terminal.as_raw_fd(), &mut settings) }), "tcgetattr", on)?;
    // SAFETY: `settings` is valid; the call changes only it.
    unsafe { libc::cfmakeraw(&mut settings) };
    // No carrier, no hanging up.
    settings.c_cflag |= libc::CLOCAL;
    // SAFETY: an open descriptor and valid settings.
    check(i64::from(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &settings) }), "tcsetattr", on)?;
    Ok(())
}

/// Waits until a terminal has sent all that was written to it.
pub fn drain(terminal: &File) {
    // SAFETY: an open descriptor. A failure means that there is nothing to wait for.
    unsafe { libc::tcdrain(terminal.as_raw_fd()) };
}

/// Switches the machine off. Comes back only with an error.
pub fn power_off() -> io::Error {
    // SAFETY: takes nothing.
    unsafe { libc::sync() };
    // SAFETY: takes a number; only the first process of a guest calls this.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    io::Error::last_os_error()
}
