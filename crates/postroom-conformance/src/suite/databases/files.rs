//! Files that are not what they should be.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use postroom::sqlite::{Durability, Sqlite, SqliteOptions, SqliteStore};
use postroom::{ErrorKind, NewMessage, Outbox};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, refused};
use crate::suite::databases::processes;

cases! { files:
    sqlite a_file_that_is_no_database_is_refused_and_left_alone [];
    sqlite a_folder_that_does_not_exist_is_not_created [];
    sqlite a_folder_is_no_file [];
    sqlite a_missing_file_is_created_only_when_asked_for [];
    sqlite a_file_that_may_not_be_written_is_refused ["OBX-104", "IBX-126"];
    sqlite files_are_for_their_owners_eyes_only ["OBX-104", "IBX-126"];
    sqlite a_connection_is_set_so_that_commits_last_and_readers_go_on ["SQM-9.1.1"];
    sqlite one_file_has_one_durability [];
    sqlite the_writer_ends_when_idle_and_comes_back [];
    sqlite the_same_file_by_two_names_is_one_store [];
}

async fn a_file_that_is_no_database_is_refused_and_left_alone(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("letter.txt");
    let text = "Dear reader, this is not a database. ".repeat(200);
    std::fs::write(&path, &text)?;
    refused(SqliteOptions::new(&path).deploy_schema(true).open().await, ErrorKind::Unsupported, "a letter")?;
    assert_eq!(std::fs::read_to_string(&path)?, text);
    Ok(())
}

async fn a_folder_that_does_not_exist_is_not_created(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("missing/store.db");
    refused(SqliteOptions::new(&path).deploy_schema(true).open().await, ErrorKind::Unsupported, "no such folder")?;
    assert!(!stage.place.path("missing").exists());
    Ok(())
}

async fn a_folder_is_no_file(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("folder");
    std::fs::create_dir(&path)?;
    refused(SqliteOptions::new(&path).deploy_schema(true).open().await, ErrorKind::Unsupported, "a folder")
}

async fn a_missing_file_is_created_only_when_asked_for(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("new.db");
    let options = SqliteOptions::new(&path).deploy_schema(true);
    refused(options.clone().create_file(false).open().await, ErrorKind::Unsupported, "a missing file")?;
    assert!(!path.exists());
    options.open().await?;
    assert!(path.exists());
    Ok(())
}

/// File modes do not bind the superuser: a child without those rights tries it.
async fn a_file_that_may_not_be_written_is_refused(stage: &Stage<Sqlite>) -> Verdict {
    let folder = stage.place.path("locked");
    std::fs::create_dir(&folder)?;
    let path = folder.join("store.db");
    let copied = stage.store.backup(&path, |_| {}).await;
    copied?;
    let readable = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    let program = folder.join("matrix");
    std::fs::copy(std::env::current_exe()?, &program)?;
    readable(&program, 0o755)?;
    readable(&path, 0o444)?;
    readable(&folder, 0o555)?;
    readable(&stage.place.path(""), 0o755)?;
    let mut child = Command::new(&program);
    processes::as_child(&mut child, "opener", &path);
    if rustix::process::geteuid().is_root() {
        std::os::unix::process::CommandExt::uid(&mut child, 65_534);
    }
    // A process that another case starts at this moment has the copy open for writing, until it is another program.
    let output = loop {
        match child.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => tokio::task::yield_now().await,
            output => break output?,
        }
    };
    let told = String::from_utf8_lossy(&output.stdout);
    readable(&folder, 0o755)?;
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("Unsupported"), "{told}");
    Ok(())
}

async fn files_are_for_their_owners_eyes_only(stage: &Stage<Sqlite>) -> Verdict {
    stage.outbox.enqueue(NewMessage::new("a", "")).await?;
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let mode = std::fs::metadata(stage.place.path(name))?.permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    Ok(())
}

/// What a connection that writes says of itself.
async fn settings(store: &SqliteStore) -> anyhow::Result<Vec<String>> {
    let asked = store.write(|tx| {
        let ask = |name: &&str| {
            let value = tx.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0))?;
            Ok(format!("{name} {value:?}"))
        };
        ["journal_mode", "synchronous", "cache_size", "foreign_keys", "temp_store"].iter().map(ask).collect()
    });
    Ok(asked.await?)
}

async fn a_connection_is_set_so_that_commits_last_and_readers_go_on(stage: &Stage<Sqlite>) -> Verdict {
    let log = "journal_mode Text(\"wal\")";
    let rest = ["cache_size Integer(-8000)", "foreign_keys Integer(1)", "temp_store Integer(2)"];
    assert_eq!(settings(&stage.store).await?, [&[log, "synchronous Integer(2)"], &rest[..]].concat());
    let options = SqliteOptions::new(stage.place.path("fast.db")).deploy_schema(true);
    let chosen = options.durability(Durability::Normal).open().await?;
    assert_eq!(settings(&chosen).await?, [&[log, "synchronous Integer(1)"], &rest[..]].concat());
    Ok(())
}

async fn one_file_has_one_durability(stage: &Stage<Sqlite>) -> Verdict {
    let other = stage.place.sqlite_options().durability(Durability::Normal);
    refused(other.open().await, ErrorKind::InvalidInput, "another durability")
}

async fn the_writer_ends_when_idle_and_comes_back(stage: &Stage<Sqlite>) -> Verdict {
    let path = stage.place.path("idle.db");
    let options = SqliteOptions::new(path).deploy_schema(true).idle(Duration::from_millis(1));
    let outbox = Outbox::new(options.open().await?);
    let mut pause = tokio::time::interval(Duration::from_millis(3));
    for n in 1..=30 {
        outbox.enqueue(NewMessage::new("a", "")).await?;
        assert_eq!(outbox.queue().stats().await?.ready, n);
        pause.tick().await;
    }
    refused(stage.place.sqlite_options().idle(Duration::ZERO).open().await, ErrorKind::InvalidInput, "no idle time")
}

async fn the_same_file_by_two_names_is_one_store(stage: &Stage<Sqlite>) -> Verdict {
    let link = stage.place.path("link.db");
    std::os::unix::fs::symlink(stage.place.path("store.db"), &link)?;
    let other = Outbox::new(SqliteOptions::new(&link).open().await?);
    for n in 1..=20 {
        stage.outbox.enqueue(NewMessage::new("a", "")).await?;
        other.enqueue(NewMessage::new("a", "")).await?;
        assert_eq!(other.queue().stats().await?.ready, n * 2);
    }
    Ok(())
}
