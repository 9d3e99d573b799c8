//! Baseline i: the same exchange on the same HTTP stack, with nothing behind it.

use std::convert::Infallible;

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{IN_FLIGHT, Other};
use crate::measure;

/// As long as what Postroom sends and answers, in as many headers.
const HEAD_BYTES: usize = 40;
const HEADERS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
const ENVELOPE_BYTES: usize = 280;
const ANSWER: &str = r#"{"acknowledged":true,"duplicateDetected":false,"payload":"done"}"#;

pub(super) async fn rate(messages: usize) -> Result<f64> {
    let other = Other::start("exchange", None)?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let uri: http::Uri = format!("http://127.0.0.1:{}/_rf/receive", other.port).parse()?;
    let body = Bytes::from("x".repeat(crate::PAYLOAD_BYTES + ENVELOPE_BYTES));
    measure::rate(messages, async {
        let mut senders = JoinSet::new();
        for _ in 0..IN_FLIGHT {
            let (client, uri, body) = (client.clone(), uri.clone(), body.clone());
            senders.spawn(async move {
                for _ in 0..messages / IN_FLIGHT {
                    let mut request = Request::post(uri.clone()).header("content-type", "application/json");
                    for name in HEADERS {
                        request = request.header(name, "x".repeat(HEAD_BYTES));
                    }
                    let response = client.request(request.body(Full::from(body.clone()))?).await?;
                    response.into_body().collect().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(sender) = senders.join_next().await {
            sender??;
        }
        Ok(())
    })
    .await
}

pub(super) async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let answer = service_fn(|request: Request<Incoming>| async move {
            let _ = request.into_body().collect().await;
            let response =
                Response::builder().header("content-type", "application/json").header("rf-ack", "x".repeat(60));
            Ok::<_, Infallible>(response.body(Full::new(Bytes::from_static(ANSWER.as_bytes()))).unwrap_or_default())
        });
        crate::spawn(async move {
            let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(tcp), answer)
                .await;
        });
    }
}
