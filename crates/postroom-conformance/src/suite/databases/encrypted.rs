//! Connections that nobody can listen to or pretend to be the other end of.

use anyhow::Context;
use postroom::doctor::Level;
use postroom::mssql::Mssql;
use postroom::{ErrorKind, NewMessage, Outbox};
use postroom_testbed::{Mode, Options, Server};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, refused};
use crate::on_server::Startable;
use crate::servers;

cases! { encrypted:
    started a_store_works_over_a_connection_that_is_checked ["OBX-107", "IBX-128"];
    started a_certificate_of_another_authority_is_refused ["OBX-107", "IBX-128"];
    started a_certificate_for_another_host_is_refused ["OBX-107", "IBX-128"];
    mssql what_shall_be_encrypted_is_never_sent_in_the_clear ["OBX-107", "IBX-128"];
}

fn start<B: Startable>() -> anyhow::Result<(Server, String)> {
    let server = Options::new(B::ENGINE, Mode::Fast).tls().start()?;
    let url = server.tcp_url().context("it has no port")?;
    Ok((server, url))
}

async fn a_store_works_over_a_connection_that_is_checked<B: Startable>(_: &Stage<B>) -> Verdict {
    let (_server, url) = start::<B>()?;
    let outbox = Outbox::new(B::open_url(&url, true).await?);
    outbox.enqueue(NewMessage::new("a", "")).await?;
    assert_eq!(outbox.queue().stats().await?.ready, 1);
    // What the server says of the connection, not what we asked for.
    let report = B::examine(&url).await?;
    let finding = report.findings.iter().find(|finding| finding.setting == "encryption").context("not looked at")?;
    assert_eq!((finding.level, finding.value.as_str()), (Level::Ok, "on"));
    Ok(())
}

async fn a_certificate_of_another_authority_is_refused<B: Startable>(_: &Stage<B>) -> Verdict {
    let ((_server, url), (_other, other_url)) = (start::<B>()?, start::<B>()?);
    let authority = |url: &str| url.rsplit_once('=').map(|(_, path)| path.to_owned()).unwrap_or_default();
    let mistaken = url.replace(&authority(&url), &authority(&other_url));
    assert_ne!(url, mistaken);
    refused(B::open_url(&mistaken, true).await, ErrorKind::Unavailable, "another authority's certificate")
}

async fn a_certificate_for_another_host_is_refused<B: Startable>(_: &Stage<B>) -> Verdict {
    let (_server, url) = start::<B>()?;
    let elsewhere = url.replace("@localhost:", "@127.0.0.1:");
    refused(B::open_url(&elsewhere, true).await, ErrorKind::Unavailable, "a certificate for another name")
}

/// The server of the suite has a certificate that nobody knows, or none.
async fn what_shall_be_encrypted_is_never_sent_in_the_clear(stage: &Stage<Mssql>) -> Verdict {
    let plain = servers::url(servers::MSSQL);
    let (address, _) = plain.split_once('?').unwrap_or((&plain, ""));
    let checked = stage.place.mssql_options_at(&format!("{address}?encrypt=true"))?.open().await;
    refused(checked, ErrorKind::Unavailable, "a certificate that nobody knows")?;
    let trusting = stage.place.mssql_options_at(&format!("{address}?encrypt=true&trust_server_certificate=true"))?;
    match trusting.clone().open().await {
        Ok(store) => {
            let outbox = Outbox::new(store);
            outbox.enqueue(NewMessage::new("a", "")).await?;
            assert_eq!(outbox.queue().stats().await?.ready, 1);
            println!("mssql: the server encrypts");
        }
        // It has none: then nothing is said to it.
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
    }
    let authority = format!("{address}?trust_server_certificate_ca=/nowhere/authority.pem");
    refused(
        stage.place.mssql_options_at(&authority)?.open().await,
        ErrorKind::Unavailable,
        "an authority that is not there",
    )?;
    match std::env::var(servers::MSSQL_CA) {
        Ok(authority) => only_by_its_authority(stage, address, &authority).await,
        Err(_) => {
            println!("mssql: {} names no authority to check its certificate by", servers::MSSQL_CA);
            Ok(())
        }
    }
}

async fn only_by_its_authority(stage: &Stage<Mssql>, address: &str, authority: &str) -> Verdict {
    let checked = format!("{address}?trust_server_certificate_ca={authority}");
    let outbox = Outbox::new(stage.place.mssql_options_at(&checked)?.open().await?);
    outbox.enqueue(NewMessage::new("a", "")).await?;
    let elsewhere = format!("{checked}&host_name_in_certificate=elsewhere.example");
    let mistaken = stage.place.mssql_options_at(&elsewhere)?.open().await;
    refused(mistaken, ErrorKind::Unavailable, "a certificate for another name")
}
