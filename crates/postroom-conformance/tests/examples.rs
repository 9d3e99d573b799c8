//! The examples, run as a newcomer would: those on PostgreSQL with their own database.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use postroom_conformance::servers::{self, Client, POSTGRES};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::PgConnection;
use tokio::runtime::Runtime;

type Test = fn(&Database) -> Result<(), Failed>;

fn main() {
    let embedded = ["order_service", "webhook_inbox", "own_connection"];
    let alone = embedded.map(|name| Trial::test(name, move || ends_well(&mut example(name))));
    let on_postgres: [(&str, Test); 3] =
        [("postgres_service", postgres_service), ("reminders", reminders), ("two_databases", two_databases)];
    let on_postgres = on_postgres.map(|(name, test)| {
        Trial::ignorable_test(name, move || match servers::why_not("postgres") {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => test(&Database::create()).map(|()| Completion::Completed),
        })
    });
    libtest_mimic::run(&Arguments::from_args(), alone.into_iter().chain(on_postgres).collect()).exit();
}

/// The program that cargo built for an example, beside the tests.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let program: PathBuf = tests.parent().unwrap().with_file_name("examples").join(name);
    assert!(program.exists(), "{} is not built: run `cargo build --examples --all-features`", program.display());
    Command::new(program)
}

fn ends_well(command: &mut Command) -> Result<(), Failed> {
    let output = command.output()?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into()),
    }
}

fn reminders(database: &Database) -> Result<(), Failed> {
    let output = example("reminders").env("DATABASE_URL", &database.url).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<_> = said.lines().collect();
    lines.sort_unstable();
    let expected = ["order 7 is confirmed", "order 7 is on shelf 7", "shop writes to ann@example.org: thank you"];
    assert_eq!(lines, expected, "the reminder was taken back");
    Ok(())
}

fn two_databases(database: &Database) -> Result<(), Failed> {
    let output = example("two_databases").env("DATABASE_URL", &database.url).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim(), "5 invoices for 5 orders");
    Ok(())
}

fn postgres_service(database: &Database) -> Result<(), Failed> {
    let mut service =
        Running::start(example("postgres_service").env("DATABASE_URL", &database.url).env("LISTEN", "127.0.0.1:0"));
    let address = service.line().strip_prefix("listening on ").unwrap().to_owned();
    let body = r#"{"id":7,"pieces":2}"#;
    let mut stream = TcpStream::connect(&address)?;
    write!(
        stream,
        "POST /orders HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(service.line(), "reserved 2 for order 7");
    service.stop();
    assert_eq!(database.ask("SELECT pieces::text FROM stock"), "98");
    Ok(())
}

/// A program that runs until it is stopped, or until the test is over.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the program ended").unwrap()
    }

    /// As Ctrl-C does.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fresh database.
struct Database {
    url: String,
}

impl Database {
    fn create() -> Self {
        let name = format!("pr_example_{}", fastrand::u64(..));
        Runtime::new().unwrap().block_on(async {
            let mut server = PgConnection::reach(&servers::url(POSTGRES)).await.unwrap();
            server.say(&format!("CREATE DATABASE {name}")).await.unwrap();
        });
        Self { url: servers::with_database(&servers::url(POSTGRES), &name) }
    }

    fn ask(&self, sql: &str) -> String {
        Runtime::new().unwrap().block_on(async {
            let mut conn = PgConnection::reach(&self.url).await.unwrap();
            conn.ask(sql).await.unwrap()[0][0].clone()
        })
    }
}
