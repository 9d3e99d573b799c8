//! Ports that nobody uses.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// A port that is free now; whoever takes it before the server does makes the start fail.
pub(crate) fn free_port() -> Result<u16> {
    free_ports::<1>().map(|[port]| port)
}

/// Some of them, all different.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // Held until all are there: what was given back could be given again.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        *port = listener.local_addr().context("no free port")?.port();
        held.push(listener);
    }
    Ok(ports)
}
