//! The proxy in front of real servers: a COMMIT whose answer is lost was carried out all the same.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Completion, Trial};
use postroom_testbed::{Engine, Mode, Proxy, Server};

fn main() {
    let trials = Engine::ALL.map(|engine| {
        Trial::ignorable_test(format!("{engine}::a_cut_commit_was_carried_out"), move || {
            if let Err(refusal) = engine.check_installed() {
                return Ok(Completion::ignored_with(format!("skipped: {refusal:#}")));
            }
            let verdict = a_cut_commit_was_carried_out(engine);
            verdict.map(|()| Completion::Completed).map_err(|error| format!("{error:#}").into())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

/// Each statement is a separate message.
fn client(engine: Engine, url: &str, statements: &[&str]) -> Result<Output> {
    let mut client;
    match engine {
        Engine::Postgres => {
            client = Command::new("psql");
            client.args(["-XAtq", "-v", "ON_ERROR_STOP=1", url]).args(statements.iter().flat_map(|one| ["-c", one]));
        }
        Engine::MariaDb => {
            let socket = url.split_once("?socket=").context("no socket")?.1;
            client = Command::new("mariadb");
            client.args(["--no-defaults", "-uroot", "-N", "--socket", socket, "postroom", "-e", &statements.join(";")]);
        }
    }
    Ok(client.output()?)
}

fn a_cut_commit_was_carried_out(engine: Engine) -> Result<()> {
    let server = Server::start(engine, Mode::Fast)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let _inside = runtime.enter();
    let proxy = Proxy::start(&server.url())?;
    let created = client(engine, proxy.url(), &["CREATE TABLE kept (id INT)"])?;
    ensure!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));

    proxy.cut_next_commits(1);
    let cut = client(engine, proxy.url(), &["BEGIN", "INSERT INTO kept VALUES (1)", "COMMIT"])?;
    ensure!(!cut.status.success(), "the client noticed nothing");
    runtime.block_on(proxy.has_cut(1));
    let kept = client(engine, proxy.url(), &["SELECT COUNT(*) FROM kept"])?;
    ensure!(kept.stdout == b"1\n", "{}", String::from_utf8_lossy(&kept.stderr));
    Ok(())
}
