//! Named pipes. On Windows they are real named pipes; elsewhere they are local sockets in a folder of this user.

use std::io;

use interprocess::local_socket::tokio::prelude::*;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, Name, ToFsName};

use super::Stream;
use postroom_core::support::error::{Error, ErrorKind, Result};

/// A listening pipe.
pub(super) struct Pipe {
    listener: LocalSocketListener,
    #[cfg(unix)]
    _file: super::unix::SocketFile,
}

impl Pipe {
    pub(super) fn bind(pipe: &str) -> Result<Self> {
        #[cfg(unix)]
        let file = super::unix::SocketFile::prepare(std::path::Path::new(&path(pipe)))?;
        let trouble = |error: io::Error| {
            Error::new(ErrorKind::Unavailable, format!("cannot listen at the pipe {pipe}: {error}")).caused_by(error)
        };
        let options = ListenerOptions::new().name(name(pipe).map_err(trouble)?);
        Ok(Self {
            listener: options.create_tokio().map_err(trouble)?,
            #[cfg(unix)]
            _file: file,
        })
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        Ok(Stream::new(self.listener.accept().await?))
    }
}

pub(super) async fn connect(pipe: &str) -> io::Result<Stream> {
    Ok(Stream::new(LocalSocketStream::connect(name(pipe)?).await?))
}

fn name(pipe: &str) -> io::Result<Name<'static>> {
    path(pipe).to_fs_name::<GenericFilePath>()
}

#[cfg(windows)]
fn path(pipe: &str) -> String {
    format!(r"\\.\pipe\{pipe}")
}

/// Returns the path where all programs of one user look for the pipe.
#[cfg(not(windows))]
fn path(pipe: &str) -> String {
    let folder = match std::env::var("XDG_RUNTIME_DIR") {
        Ok(folder) if folder.starts_with('/') => format!("{folder}/postroom"),
        _ => format!("/tmp/postroom-{}", super::unix::own_uid()),
    };
    format!("{folder}/{pipe}.sock")
}
