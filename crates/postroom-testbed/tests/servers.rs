//! The servers themselves: what they keep, and that they leave nothing behind.

mod doomed;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Completion, Trial};
use postroom_testbed::{Engine, Mode, Options, Server};

fn main() -> Result<()> {
    for engine in Engine::ALL {
        if doomed::is_here_for(&engine.to_string()) {
            return be_killed_with(engine);
        }
    }
    let mut trials = vec![trial(Engine::Postgres, "lets_a_client_check_who_it_talks_to", |_| checked_by_its_client())];
    for engine in Engine::ALL {
        trials.push(trial(engine, "keeps_what_was_committed_when_it_is_killed", keeps_what_was_committed));
        trials.push(trial(engine, "ends_with_its_parent", |engine| doomed::ends_with_its_parent(&engine.to_string())));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}

/// A server that cannot be had on this machine cannot be tested either.
fn trial(engine: Engine, promise: &str, test: fn(Engine) -> Result<()>) -> Trial {
    Trial::ignorable_test(format!("{engine}::{promise}"), move || {
        if let Err(refusal) = engine.check_installed() {
            return Ok(Completion::ignored_with(format!("skipped: {refusal:#}")));
        }
        test(engine).map(|()| Completion::Completed).map_err(|error| format!("{error:#}").into())
    })
}

/// Runs statements with the database's own client and returns what it prints.
fn ask(server: &Server, statements: &str) -> Result<String> {
    let mut client;
    match server.engine() {
        Engine::Postgres => {
            client = Command::new("psql");
            client.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statements, &server.url()]);
        }
        Engine::MariaDb => {
            let socket = format!("--socket={}", server.socket().display());
            client = Command::new("mariadb");
            client.args(["--no-defaults", "-uroot", "-N", &socket, "postroom", "-e", statements]);
        }
    }
    let output = client.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn keeps_what_was_committed(engine: Engine) -> Result<()> {
    let mut server = Server::start(engine, Mode::Durable)?;
    ask(&server, "CREATE TABLE kept (id INT); INSERT INTO kept VALUES (1)")?;
    let first = server.pid().context("it does not run")?;
    server.kill()?;
    ensure!(doomed::is_gone(first), "it outlived its kill");
    ensure!(server.pid().is_none(), "it still has a process");
    server.restart()?;
    ask(&server, "INSERT INTO kept VALUES (2)")?;
    server.stop()?;
    server.restart()?;
    let kept = ask(&server, "SELECT COUNT(*) FROM kept")?;
    ensure!(kept == "2", "{kept} rows were kept");
    let (log, last) = (server.log(), server.pid().context("it does not run")?);
    drop(server);
    ensure!(doomed::is_gone(last), "it outlived its owner");
    ensure!(!log.exists(), "{} is still there", log.display());
    Ok(())
}

/// The other side of `ends_with_its_parent`.
fn be_killed_with(engine: Engine) -> Result<()> {
    let server = Server::start(engine, Mode::Fast)?;
    doomed::wait_with(&server.log(), &[server.pid().context("it does not run")?])
}

fn checked_by_its_client() -> Result<()> {
    let server = Options::new(Engine::Postgres, Mode::Fast).tls().start()?;
    let url = server.tcp_url().context("no port")?;
    let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let ask = |url: &str| Command::new("psql").args(["-XAtqc", encrypted, url]).output();
    let answer = ask(&url)?;
    ensure!(answer.stdout == b"t\n", "{}", String::from_utf8_lossy(&answer.stderr));
    let refusal = ask(&url.replace("localhost", "127.0.0.1"))?.stderr;
    let refusal = String::from_utf8_lossy(&refusal);
    ensure!(refusal.contains("does not match"), "a wrong name was believed: {refusal}");
    Ok(())
}
