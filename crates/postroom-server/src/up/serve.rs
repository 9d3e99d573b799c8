//! The listeners of a node.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use postroom::handler::Backend;
use postroom::services::{Keys, ListenOptions, Listener, Receiver, ReceiverOptions, Source, TlsIdentity};

use super::work::{self, Work};
use super::{RECEIVER, greeting};
use crate::admin::{Admin, Token, Tokens};
use crate::config::{self, Config, Opened};

/// The receiver of a node.
pub(super) fn receiver<B: Backend>(
    config: &Config,
    opened: &Opened,
    store: B::Store,
    work: &std::sync::Arc<Work>,
) -> Result<Receiver<B>> {
    let options = ReceiverOptions::default()
        .window(config.receiver.window)
        .body_max(config.receiver.body_max)
        .unverified_max(config.receiver.unverified_max)
        .in_flight(config.receiver.in_flight);
    let options = opened.hooks.iter().cloned().fold(options, ReceiverOptions::hook);
    let options = if config.receiver.queued { options.queued() } else { options };
    Ok(Receiver::with(&config.name, store, work::handlers(work), sources(config, opened)?, options)?)
}

/// The services that may send to this node.
pub(super) fn sources(config: &Config, opened: &Opened) -> Result<Vec<Source>> {
    let described = config.sources.iter().zip(&opened.sources).map(|(source, (_, keys))| {
        let described = Source::new(&source.name, Keys::new(keys.iter().cloned())?);
        let described = if source.allow_v1 { described.allow_v1() } else { described };
        let described = source.window.into_iter().fold(described, Source::window);
        let described = source.topics.iter().fold(described, |source, topics| source.topics(topics.clone()));
        Ok(if config.reaches(&source.name) { described } else { described.without_answers() })
    });
    described.collect()
}

/// The listeners of the receiver, and a line about them. Another node may use the default address. Then this one
/// receives nothing, which it could not do anyway without sources in its configuration.
pub(super) async fn listeners(config: &Config, tls: Option<&TlsIdentity>) -> Result<(Vec<Listener>, String)> {
    let options = ListenOptions::default().connections_per_address(config.receiver.connections_per_address);
    let mut options = tls.cloned().into_iter().fold(options, ListenOptions::tls);
    if config.receiver.allow_unencrypted {
        options = options.allow_unencrypted();
    }
    let addresses = match &config.receiver.listen {
        Some(addresses) => addresses.clone(),
        None => vec![RECEIVER.to_owned()],
    };
    let has_no_senders = config.sources.is_empty() && config.hooks.is_empty();
    let (mut listeners, mut shown) = (Vec::new(), Vec::new());
    for address in &addresses {
        match Listener::bind(address, options.clone()).await {
            Ok(listener) => {
                shown.push(place(address, listener.tcp_address()));
                listeners.push(listener);
            }
            Err(error) if config.receiver.listen.is_none() && has_no_senders => {
                return Ok((listeners, format!("receives nothing: {error}")));
            }
            Err(error) => return Err(error).context("`listen` in [receiver]"),
        }
    }
    if shown.is_empty() {
        return Ok((listeners, "receives nothing".into()));
    }
    let sources = greeting::listed(config.sources.iter().map(|source| source.name.as_str()));
    let shown = greeting::listed(shown.iter().map(String::as_str));
    Ok((listeners, format!("receives at {shown} as {}, from {sources}", config.name)))
}

/// The address as it was written, with the actual port in place of port 0.
fn place(address: &str, bound: Option<SocketAddr>) -> String {
    match bound.filter(|_| address.ends_with(":0")) {
        Some(bound) => format!("{}{}", address.trim_end_matches('0'), bound.port()),
        None => address.to_owned(),
    }
}

/// The admin listener, and the lines about it.
pub(super) async fn admin(
    config: &config::Admin,
    tokens: &[Token],
    tls: Option<&TlsIdentity>,
) -> Result<(Admin, Vec<String>)> {
    let (tokens, made) = match tokens {
        [] => {
            let (tokens, text) = Tokens::generate("node");
            (tokens, Some(text))
        }
        some => (Tokens::new(some.to_vec()), None),
    };
    let admin = Admin::bind(config.listen, tls, tokens, &config.hosts).await.context("`listen` in [admin]")?;
    let url = admin.url();
    let mut told = vec![format!("serves the HTTP API at {url}")];
    if made.is_none() {
        told.push(format!("Admin page: {url}/admin"));
    }
    if let Some(token) = made {
        let lines = with_token(url, &token);
        // More people read a log than a terminal, so the token does not go there.
        match std::io::stderr().is_terminal() {
            true => told.extend(lines),
            false => told.push(match privately(&lines) {
                Ok(file) => format!("Admin page: {url}/admin, with the token in {}", file.display()),
                Err(error) => format!("Admin page: {url}/admin, but the file for its token cannot be written: {error}"),
            }),
        }
    }
    Ok((admin, told))
}

/// How to use a token.
fn with_token(url: &str, token: &str) -> Vec<String> {
    let curl = format!("  curl -s -H 'authorization: Bearer {token}' {url}");
    let message = r#"{"topic": "order.placed", "payload": {"order": 7}}"#;
    vec![
        format!("Admin page: {url}/admin#token={token}"),
        "Over HTTP, with a token that is valid until the node stops:".into(),
        format!("{curl}/v1/messages -H 'content-type: application/json' -d '{message}'"),
        format!("{curl}/_rf/outbox/stats"),
        format!("{curl}/_rf/outbox/failed"),
    ]
}

/// Writes these lines to a file that only this user can read.
fn privately(lines: &[String]) -> io::Result<PathBuf> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("postroom-{}.token", std::process::id()));
    // An existing file is a leftover of another process with the same id.
    let _ = std::fs::remove_file(&path);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path)?;
    lines.iter().try_for_each(|line| writeln!(file, "{line}"))?;
    Ok(path)
}
