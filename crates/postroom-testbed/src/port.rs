//! Finds free ports.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Returns a port that is free now. If another program takes it before the server does, the start fails.
pub(crate) fn free_port() -> Result<u16> {
    free_ports::<1>().map(|[port]| port)
}

/// Returns several free ports, all different.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All listeners stay open until every port is found; otherwise the same port could come again.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        *port = listener.local_addr().context("no free port")?.port();
        held.push(listener);
    }
    Ok(ports)
}
