//! Starts the launcher with `posix_spawn`, whose cost does not depend on the size of the daemon's memory.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::process::Pid;

use super::{ChildError, Command};

/// A validated command as C strings.
pub struct SpawnArgs {
    /// The launcher's name, flags and program, then the tool's arguments.
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
}

impl SpawnArgs {
    pub fn new(flags: &CStr, command: &Command) -> Result<SpawnArgs, ChildError> {
        let mut argv = Vec::with_capacity(command.argv.len() + 3);
        argv.extend([c"toolyard-launcher".to_owned(), flags.to_owned(), path(&command.program)?]);
        for (index, argument) in command.argv.iter().enumerate() {
            argv.push(text(argument).ok_or(ChildError::NulInArgument { index })?);
        }
        let mut env = Vec::with_capacity(command.env.len());
        for (name, value) in &command.env {
            env.push(
                variable(name, value).ok_or_else(|| ChildError::BadEnvironment {
                    name: name.to_string_lossy().into_owned(),
                })?,
            );
        }
        Ok(SpawnArgs { argv, env, cwd: path(&command.cwd)? })
    }

    /// Starts the launcher at `image` with `fds` as its descriptors 0 to 3, plus `namespaces` at the given
    /// numbers; returns its pid.
    pub fn spawn(
        &self,
        image: &CStr,
        fds: [&OwnedFd; 4],
        namespaces: Vec<(&OwnedFd, i32)>,
    ) -> io::Result<Pid> {
        let passed = fds.into_iter().zip(0..).chain(namespaces).collect::<Vec<_>>();
        let actions = Actions::new(&passed, &self.cwd)?;
        let attributes = Attributes::new()?;
        let (argv, env) = (pointers(&self.argv), pointers(&self.env));
        let mut pid = 0;
        // SAFETY: all pointers point to initialised objects that outlive the call; the lists end in NULL.
        check_errno(unsafe {
            let (actions, attributes) = (actions.0.as_ptr(), attributes.0.as_ptr());
            libc::posix_spawn(&mut pid, image.as_ptr(), actions, attributes, argv.as_ptr(), env.as_ptr())
        })?;
        Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new(fds: &[(&OwnedFd, i32)], cwd: &CStr) -> io::Result<Actions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: `init` initialises what the later calls and `drop` use.
        check_errno(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        let mut actions = Actions(actions);
        for (fd, target) in fds {
            // SAFETY: initialised above.
            check_errno(unsafe {
                libc::posix_spawn_file_actions_adddup2(actions.0.as_mut_ptr(), fd.as_raw_fd(), *target)
            })?;
        }
        // SAFETY: initialised above; the path ends in NUL and is copied.
        check_errno(unsafe {
            libc::posix_spawn_file_actions_addchdir_np(actions.0.as_mut_ptr(), cwd.as_ptr())
        })?;
        Ok(actions)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

impl Attributes {
    /// Default signal dispositions; all signals blocked (the launcher unblocks them for the tool); a new
    /// session, so that Ctrl-C on the daemon's terminal reaches only the daemon.
    fn new() -> io::Result<Attributes> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: `init` initialises what the later calls and `drop` use.
        check_errno(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        let mut attributes = Attributes(attributes);
        let mut every = MaybeUninit::uninit();
        let flags = libc::POSIX_SPAWN_SETSIGDEF as libc::c_short
            | libc::POSIX_SPAWN_SETSIGMASK as libc::c_short
            | libc::POSIX_SPAWN_SETSID;
        // SAFETY: `sigfillset` initialises the set, which is copied; `attributes` were initialised above.
        unsafe {
            libc::sigfillset(every.as_mut_ptr());
            check_errno(libc::posix_spawnattr_setsigdefault(attributes.0.as_mut_ptr(), every.as_ptr()))?;
            check_errno(libc::posix_spawnattr_setsigmask(attributes.0.as_mut_ptr(), every.as_ptr()))?;
            check_errno(libc::posix_spawnattr_setflags(attributes.0.as_mut_ptr(), flags))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}

/// The posix_spawn functions return the error number.
fn check_errno(errno: libc::c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

fn pointers(list: &[CString]) -> Vec<*mut libc::c_char> {
    list.iter().map(|text| text.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

fn text(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

fn path(path: &Path) -> Result<CString, ChildError> {
    text(path.as_os_str()).ok_or_else(|| ChildError::NulInPath { path: path.to_owned() })
}

fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    if name.is_empty() || name.contains(&b'=') {
        return None;
    }
    CString::new([name, b"=", value].concat()).ok()
}
