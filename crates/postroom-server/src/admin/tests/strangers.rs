//! Requests without a token cost next to nothing, however many there are.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use metrics_exporter_prometheus::PrometheusBuilder;
use postroom::services::{Courier, Services};
use postroom::sqlite::{SqliteOptions, SqliteStore};
use postroom::testing;
use postroom::worker::Places;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::ServiceExt;

use super::super::watch::LOOK_EVERY;
use super::super::{Admin, Desk, Parts, Tokens, Watched, router};
use super::{GUARDED, HOST, request};
use crate::up::signals;

/// The most statements of one check: for health, for readiness, and for the connections it opens.
const STATEMENTS_PER_LOOK: u64 = 40;

async fn parts() -> (TempDir, SqliteStore, Parts, signals::Stop) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("postroom.db");
    let store = SqliteOptions::new(&file).deploy_schema(true).open().await.unwrap();
    let (stop, stopped) = signals::stop();
    // Without its file, so that the free space on this disk does not matter.
    let watched =
        Watched { courier: Courier::new(Services::new("shop")).unwrap(), places: Places::default(), file: None };
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    let parts = Parts {
        store: Arc::new(store.clone()),
        metrics,
        counters: None,
        watched,
        taken_for: Duration::from_secs(3600),
        policies: postroom::queue::RetryPolicies::default(),
        stopped,
    };
    (folder, store, parts, stop)
}

/// The number of background checks in a time span.
fn looks(began: Instant) -> u64 {
    began.elapsed().as_secs() / LOOK_EVERY.as_secs() + 1
}

/// Statements are counted for the whole process, so this test has its own process.
#[test]
fn a_hundred_thousand_strangers_cause_no_statement() {
    const ALONE: &str = "POSTROOM_STRANGERS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        return runtime.block_on(strangers());
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let ran = alone.args([&name, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}

async fn strangers() {
    let (_folder, store, parts, _stop) = parts().await;
    let router = router(Desk::new(parts, Tokens::new(Vec::new()), vec![HOST.to_owned()]));
    let open = [(Method::GET, "/_rf/health"), (Method::GET, "/_rf/ready")];
    // The first checks of a node, before any request.
    for (method, path) in open.clone() {
        let said = router.clone().oneshot(request(method, path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(said.status(), StatusCode::OK);
    }
    let before = testing::statements();
    let guarded = GUARDED.iter().cloned().map(|asked| (asked, StatusCode::UNAUTHORIZED));
    let asked: Vec<_> = guarded.chain(open.map(|asked| (asked, StatusCode::OK))).collect();
    for n in 0..100_000 {
        let ((method, path), expected) = &asked[n % asked.len()];
        let request = request(method.clone(), path).header("authorization", "Bearer guessed");
        let said = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(said.status(), *expected, "{method} {path}");
    }
    assert_eq!(testing::statements(), before, "without a token nothing at all is asked");
    over_sockets().await;
    store.close().await;
}

async fn over_sockets() {
    let (_folder, store, parts, _stop) = parts().await;
    let admin = Admin::bind(Some("127.0.0.1:0".parse().unwrap()), None, Tokens::new(Vec::new()), &[]).await.unwrap();
    let (address, (over, is_over)) =
        (admin.url().trim_start_matches("http://").to_owned(), tokio::sync::oneshot::channel::<()>());
    let (began, before) = (Instant::now(), testing::statements());
    let asking = async {
        let clients = (0..8).map(|_| keep_asking(&address, 500));
        futures_util::future::join_all(clients).await;
        drop(over);
    };
    tokio::join!(admin.run(parts, async { drop(is_over.await) }), asking);
    let (counted, allowed) = (testing::statements() - before, looks(began) * STATEMENTS_PER_LOOK);
    assert!(counted <= allowed, "{counted} statements, {allowed} are allowed");
    store.close().await;
}

/// One connection with one request after another.
async fn keep_asking(address: &str, times: usize) {
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    for n in 0..times {
        let (path, expected) = [("/_rf/health", "200"), ("/_rf/ready", "200"), ("/metrics", "401")][n % 3];
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut status, mut length) = (String::new(), 0);
        stream.read_line(&mut status).await.unwrap();
        assert_eq!(status.split(' ').nth(1), Some(expected), "{path}: {status}");
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.trim().parse().unwrap();
            }
        }
        stream.read_exact(&mut vec![0; length]).await.unwrap();
    }
}
