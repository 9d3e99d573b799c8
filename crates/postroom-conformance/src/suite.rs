//! The cases, by verb.

mod abandon;
mod ack;
mod admission;
mod any_language;
mod arrive;
mod audit;
mod backup;
mod cancel;
mod claim;
mod clocks;
mod contention;
mod corrupt;
mod crash;
mod dead_letters;
mod declared;
mod dedupe;
mod default_transport;
mod deploy;
mod discovery;
mod disk;
mod dismiss;
mod dispatch;
mod doctor;
mod effects;
mod encrypted;
mod enqueue;
mod expire;
mod extend;
mod fail;
mod failed;
mod failover;
mod failures;
mod fair;
mod files;
mod fleet;
mod grants;
mod group;
mod idempotency_key;
mod idempotent;
mod in_doubt;
mod inspect;
mod isolation;
mod large;
mod layers;
mod limits;
mod locked;
mod logs;
mod marks;
mod metrics;
mod model;
mod neighbours;
mod outage;
mod own_tx;
mod plans;
mod pooler;
mod procedures;
mod processes;
mod pull;
mod purge;
mod queued;
mod reap;
mod receipts;
mod receive;
mod release;
mod renew;
mod replaced;
mod retention;
mod retry;
mod revive;
mod route;
mod router;
mod sabotage;
mod schema;
mod service_map;
mod services_log;
mod sessions;
mod shutdown;
mod standby;
mod throughput;
mod trips;
mod trouble;
mod trust;
mod twins;
mod typed;
mod upkeep;
mod values;
mod wake;
mod wal;
mod wires;
mod work;

pub use model::{SEED_VARIABLE, seed};
pub use processes::run_as_child;

use crate::case::Case;

/// Every case.
pub fn cases() -> Vec<Case> {
    let areas = [
        enqueue::CASES,
        limits::CASES,
        values::CASES,
        claim::CASES,
        ack::CASES,
        abandon::CASES,
        fail::CASES,
        release::CASES,
        extend::CASES,
        reap::CASES,
        crash::CASES,
        expire::CASES,
        revive::CASES,
        pull::CASES,
        purge::CASES,
        declared::CASES,
        dedupe::CASES,
        marks::CASES,
        arrive::CASES,
        route::CASES,
        retry::CASES,
        work::CASES,
        renew::CASES,
        shutdown::CASES,
        wake::CASES,
        dispatch::CASES,
        router::CASES,
        fleet::CASES,
        discovery::CASES,
        effects::CASES,
        throughput::CASES,
        logs::CASES,
        metrics::CASES,
        dead_letters::CASES,
        schema::CASES,
        deploy::CASES,
        grants::CASES,
        encrypted::CASES,
        standby::CASES,
        pooler::CASES,
        doctor::CASES,
        own_tx::CASES,
        any_language::CASES,
        outage::CASES,
        group::CASES,
        files::CASES,
        backup::CASES,
        corrupt::CASES,
        sabotage::CASES,
        model::CASES,
        contention::CASES,
        processes::CASES,
        plans::CASES,
        cancel::CASES,
    ];
    let rest = [clocks::CASES, procedures::CASES, sessions::CASES].concat();
    let rest = [rest, between_services(), files_in_trouble(), under_trouble()].concat();
    [areas.concat(), rest, asked(), once(), own_tx::PROMISES.concat(), wires::PROMISES.concat()].concat()
}

/// What one service is sent by another.
fn between_services() -> Vec<Case> {
    let receivers = [receive::CASES, admission::CASES, twins::CASES, typed::CASES, queued::CASES, trust::CASES];
    let senders = [receipts::CASES, failures::CASES, trouble::CASES, service_map::CASES, services_log::CASES];
    [receivers.concat(), senders.concat(), neighbours::CASES.to_vec(), default_transport::CASES.to_vec()].concat()
}

/// What a server does to its stores.
fn under_trouble() -> Vec<Case> {
    [fair::CASES, in_doubt::CASES, failover::CASES, isolation::CASES, trips::CASES, upkeep::CASES].concat()
}

/// What an operator asks.
fn asked() -> Vec<Case> {
    [inspect::CASES, failed::CASES, audit::CASES, dismiss::CASES, retention::CASES].concat()
}

/// What happens to a SQLite file, and what becomes of the messages in it.
fn files_in_trouble() -> Vec<Case> {
    [disk::CASES, large::CASES, locked::CASES, replaced::CASES, wal::CASES].concat()
}

fn once() -> Vec<Case> {
    [idempotent::PROMISES.concat(), layers::CASES.to_vec(), idempotency_key::PROMISES.concat()].concat()
}
