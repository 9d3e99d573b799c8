//! Starts NATS, with JetStream.

use std::path::Path;

use crate::folder::Folder;

pub(crate) fn command(folder: &Folder, program: &Path, port: u16) -> Vec<String> {
    let store = folder.join("data").display().to_string();
    let settings = ["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd", &store].map(str::to_owned);
    [program.display().to_string()].into_iter().chain(settings).collect()
}
