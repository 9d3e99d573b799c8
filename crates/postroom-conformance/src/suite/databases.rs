//! What a database does to its messages, and what they ask of it: its tables, transactions, users, files and outages.

mod any_language;
mod backup;
mod cancel;
mod contention;
mod corrupt;
mod deploy;
mod disk;
mod doctor;
mod encrypted;
mod failover;
mod files;
mod grants;
mod group;
mod in_doubt;
mod isolation;
mod keys_elsewhere;
mod large;
mod locked;
mod migrate;
mod moves;
mod open_elsewhere;
mod outage;
mod own_tx;
mod plans;
mod pooler;
mod procedures;
pub(super) mod processes;
mod replaced;
mod schema;
mod sessions;
mod standby;
mod trips;
mod upkeep;
mod wal;

use crate::case::Case;

/// Every case about databases.
pub(super) fn cases() -> Vec<Case> {
    [on_any(), on_servers(), in_files()].concat()
}

fn on_any() -> Vec<Case> {
    let cases = [own_tx::CASES, any_language::CASES, contention::CASES, doctor::CASES];
    [cases.concat(), own_tx::PROMISES.concat(), own_tx::BEGUN.concat(), migrate::cases()].concat()
}

fn on_servers() -> Vec<Case> {
    [
        deploy::CASES,
        grants::CASES,
        encrypted::CASES,
        standby::CASES,
        pooler::CASES,
        isolation::CASES,
        plans::CASES,
        trips::CASES,
        moves::CASES,
        open_elsewhere::CASES,
        keys_elsewhere::CASES,
        upkeep::CASES,
        procedures::CASES,
        sessions::CASES,
        cancel::CASES,
        outage::CASES,
        in_doubt::CASES,
        failover::CASES,
    ]
    .concat()
}

/// What happens to a SQLite file, and what becomes of the messages in it.
fn in_files() -> Vec<Case> {
    [
        schema::CASES,
        files::CASES,
        group::CASES,
        processes::CASES,
        backup::CASES,
        corrupt::CASES,
        disk::CASES,
        large::CASES,
        locked::CASES,
        replaced::CASES,
        wal::CASES,
    ]
    .concat()
}
