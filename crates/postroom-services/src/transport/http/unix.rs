//! Unix sockets, in a folder that nobody else can enter, and only for permitted users.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use super::Stream;
use postroom_core::support::error::{Error, ErrorKind, Result};

/// The file of a socket, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl SocketFile {
    /// Prepares the path of a socket: its folder exists and is only ours, and no other program listens there.
    pub(super) fn prepare(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.ok_or_else(|| Error::invalid("a socket needs its own folder"))?;
        if !folder.exists() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| trouble(folder, "cannot be created", error))?;
        }
        let about = fs::metadata(folder).map_err(|error| trouble(folder, "cannot be inspected", error))?;
        let mode = about.permissions().mode() & 0o777;
        if about.uid() != own_uid() || mode & 0o077 != 0 {
            return Err(Error::invalid(format!(
                "the folder {} must belong to this user and be closed to others (mode 700); it has mode {mode:o}",
                folder.display()
            )));
        }
        remove_stale(path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes a socket that a program left behind. A socket in use, and any other file, stays.
fn remove_stale(path: &Path) -> Result<()> {
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(trouble(path, "cannot be inspected", error)),
    };
    if !about.file_type().is_socket() || about.uid() != own_uid() {
        return Err(Error::invalid(format!("{} exists and is not a socket", path.display())));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| trouble(path, "is an old socket and cannot be removed", error))
        }
        _ => Err(Error::new(ErrorKind::Unavailable, format!("another program listens at {}", path.display()))),
    }
}

fn trouble(path: &Path, what: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{} {what}: {error}", path.display())).caused_by(error)
}

/// Returns the user that this program runs as.
pub(super) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    uids: Vec<u32>,
    _file: SocketFile,
}

impl Socket {
    /// Listens at this path for these users, or for our own user if the list is empty.
    pub(super) fn bind(path: &Path, uids: &[u32]) -> Result<Self> {
        let file = SocketFile::prepare(path)?;
        let listener = UnixListener::bind(path).map_err(|error| trouble(path, "cannot be used to listen", error))?;
        let uids = if uids.is_empty() { vec![own_uid()] } else { uids.to_vec() };
        Ok(Self { listener, uids, _file: file })
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        let (stream, _) = self.listener.accept().await?;
        self.check(&stream)?;
        Ok(Stream::new(stream))
    }

    fn check(&self, stream: &UnixStream) -> io::Result<()> {
        let uid = stream.peer_cred()?.uid();
        if self.uids.contains(&uid) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("the user {uid} may not connect here")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_socket_in_an_open_folder_is_refused() {
        for (mode, fine) in [(0o700, true), (0o750, false), (0o701, false), (0o777, false)] {
            let folder = folder(mode);
            assert_eq!(Socket::bind(&folder.path().join("a.sock"), &[]).is_ok(), fine, "{mode:o}");
        }
    }

    #[tokio::test]
    async fn a_missing_folder_is_made_and_closed_to_others() {
        let outer = folder(0o755);
        let inner = outer.path().join("new");
        let _socket = Socket::bind(&inner.join("a.sock"), &[]).unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_one_in_use_is_not() {
        let folder = folder(0o700);
        let path = folder.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let first = Socket::bind(&path, &[]).unwrap();
        let second = Socket::bind(&path, &[]).unwrap_err();
        assert!(second.to_string().contains("another program"), "{second}");
        drop(first);
        assert!(!path.exists(), "removed with its listener");
    }

    #[tokio::test]
    async fn what_is_no_socket_stays() {
        let folder = folder(0o700);
        let path = folder.path().join("a.sock");
        fs::write(&path, "precious").unwrap();
        assert!(Socket::bind(&path, &[]).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn other_users_are_turned_away() {
        let folder = folder(0o700);
        let path = folder.path().join("a.sock");
        let socket = Socket::bind(&path, &[own_uid() + 1]).unwrap();
        let _client = UnixStream::connect(&path).await.unwrap();
        assert_eq!(socket.accept().await.err().unwrap().kind(), io::ErrorKind::PermissionDenied);
    }
}
