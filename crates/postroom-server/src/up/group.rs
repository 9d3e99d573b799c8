//! The process group of a command. It is killed when nothing waits for the command any more.

use tokio::process::Child;

/// The processes of a running command. Dropping this kills them: the lease is lost, or the timeout is over.
#[cfg(unix)]
pub(super) struct Group(Option<rustix::process::Pid>);

#[cfg(unix)]
impl Group {
    /// The processes of a child that leads its own group.
    pub(super) fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(rustix::process::Pid::from_raw))
    }

    /// The command has exited, and another process may have its id by now.
    pub(super) fn is_over(&mut self) {
        self.0 = None;
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It may have exited this moment; then there is nothing to kill.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

/// Without process groups only the command itself is killed, when it is dropped.
#[cfg(not(unix))]
pub(super) struct Group;

#[cfg(not(unix))]
impl Group {
    pub(super) fn of(_: &Child) -> Self {
        Self
    }

    pub(super) fn is_over(&mut self) {}
}
