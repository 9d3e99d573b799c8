//! A batch is settled, renewed and lost in parts.

use std::time::Duration;

use postroom::postgres::Postgres;
use postroom::queue::{Lease, Settle, State};
use postroom::sqlite::Sqlite;

use crate::case::{Verdict, cases};
use crate::harness::{Harness, LEASE, Stage};
use crate::on_server::OnServer;
use crate::side::Side;

cases! { partial:
    both acks_in_any_order_leave_the_rest_held [];
    both every_verb_takes_its_part_of_a_batch [];
    both a_part_that_was_renewed_outlives_the_rest [];
    both what_another_worker_has_now_is_not_settled_with_the_rest [];
    both what_a_claim_leaves_out_is_claimed_later_and_once [];
    sqlite a_message_in_two_places_or_in_none_is_found [];
    postgres a_message_in_two_places_or_in_none_is_found_there_too [];
    postgres a_batch_has_one_lease_that_ends_with_it [];
}

async fn batch(side: Side<'_>, count: usize) -> anyhow::Result<Vec<Lease>> {
    side.add_many("a", count).await?;
    let leases: Vec<_> = side.claim(count).await?.into_iter().map(|claimed| claimed.lease).collect();
    anyhow::ensure!(leases.len() == count, "{} of {count} were claimed", leases.len());
    Ok(leases)
}

async fn counts(side: Side<'_>) -> anyhow::Result<[u64; 4]> {
    let stats = side.verbs().stats().await?;
    Ok([stats.ready, stats.leased, stats.done, stats.dead])
}

async fn acks_in_any_order_leave_the_rest_held(h: &Harness) -> Verdict {
    for side in h.sides() {
        let leases = batch(side, 9).await?;
        // The middle, the ends, and then what lies between.
        for (at, place) in [4, 0, 8, 1, 7, 3, 5, 2, 6].into_iter().enumerate() {
            side.ack(leases[place].clone()).await?;
            assert_eq!(side.verbs().ack([leases[place].clone()]).await?.lost, 1, "it was acknowledged twice");
            let done = at as u64 + 1;
            assert_eq!(counts(side).await?, [0, 9 - done, done, 0]);
            assert_eq!(side.state(leases[place].seq()).await?, State::Done);
        }
    }
    Ok(())
}

async fn every_verb_takes_its_part_of_a_batch(h: &Harness) -> Verdict {
    for side in h.sides() {
        let leases = batch(side, 8).await?;
        let settles = vec![
            Settle::ack(leases[1].clone()),
            Settle::ack_with(leases[2].clone(), Some("answer".to_owned())),
            Settle::fail(leases[3].clone(), "no such order"),
            Settle::release(leases[5].clone()),
            Settle::ack(leases[6].clone()),
        ];
        assert_eq!(side.verbs().settle(settles).await?.applied, 5);
        assert_eq!(counts(side).await?, [1, 3, 3, 1]);
        assert_eq!(side.record(leases[2].seq()).await?.response(), Some("answer"));
        for place in [0, 4, 7] {
            assert_eq!(side.state(leases[place].seq()).await?, State::Leased, "number {place}");
            side.ack(leases[place].clone()).await?;
        }
        assert_eq!(counts(side).await?, [1, 0, 6, 1]);
    }
    Ok(())
}

async fn a_part_that_was_renewed_outlives_the_rest(h: &Harness) -> Verdict {
    for side in h.sides() {
        let leases = batch(side, 6).await?;
        h.clock.advance(LEASE / 2);
        let renewed = [leases[1].clone(), leases[2].clone(), leases[5].clone()];
        assert_eq!(side.verbs().extend(&renewed, LEASE).await?, [true; 3]);
        h.clock.advance(LEASE / 2 + Duration::from_secs(1));
        assert_eq!(side.verbs().reap(10).await?.total(), 3, "those that nobody renewed");
        assert_eq!(counts(side).await?, [3, 3, 0, 0]);
        assert_eq!(side.verbs().ack(renewed).await?.applied, 3);
        let lost = [leases[0].clone(), leases[3].clone(), leases[4].clone()];
        assert_eq!(side.verbs().ack(lost).await?.lost, 3);
    }
    Ok(())
}

async fn what_another_worker_has_now_is_not_settled_with_the_rest(h: &Harness) -> Verdict {
    for side in h.sides() {
        let first = batch(side, 5).await?;
        h.clock.advance(LEASE / 2);
        assert_eq!(side.verbs().extend(&[first[0].clone(), first[4].clone()], LEASE).await?, [true; 2]);
        h.clock.advance(LEASE / 2 + Duration::from_secs(1));
        assert_eq!(side.verbs().reap(10).await?.total(), 3);
        h.clock.advance(Duration::from_secs(2));
        let second: Vec<_> = side.claim(10).await?.into_iter().map(|claimed| claimed.lease).collect();
        assert!(!second.is_empty(), "another worker claims what was lost");
        let settled = side.verbs().ack(first.clone()).await?;
        assert_eq!((settled.applied, settled.lost), (2, 3), "only what was renewed is settled");
        for taken in &second {
            assert!(first[1..4].iter().any(|stale| stale.seq() == taken.seq()));
            assert_eq!((side.state(taken.seq()).await?, taken.claim_no()), (State::Leased, 2));
        }
        let taken = second.len() as u64;
        assert_eq!(side.verbs().ack(second).await?.applied, taken);
    }
    Ok(())
}

async fn what_a_claim_leaves_out_is_claimed_later_and_once(h: &Harness) -> Verdict {
    use postroom::message::OwnerToken;
    use postroom::queue::Topics;
    for side in h.sides() {
        for number in 0..12 {
            side.add(["a", "b", "c"][number % 3]).await?;
        }
        let (owner, b) = (OwnerToken::new(), Topics::only(["b"])?);
        let some = side.verbs().claim_topics(owner, LEASE, 3, &b).await?.claimed;
        let rest = side.verbs().claim_topics(owner, LEASE, 20, &b.rest()).await?.claimed;
        let last = side.claim(20).await?;
        assert_eq!((some.len(), rest.len(), last.len()), (3, 8, 1));
        let mut seqs: Vec<_> = some.iter().chain(&rest).chain(&last).map(|claimed| claimed.lease.seq()).collect();
        seqs.sort_unstable();
        seqs.dedup();
        assert_eq!(seqs.len(), 12, "a message was given out twice");
        let leases = some.into_iter().chain(rest).chain(last).map(|claimed| claimed.lease);
        assert_eq!(side.verbs().ack(leases).await?.applied, 12);
    }
    Ok(())
}

async fn a_message_in_two_places_or_in_none_is_found(stage: &Stage<Sqlite>) -> Verdict {
    let found = || async { stage.place.sqlite_options().examine().await };
    for queue in ["outbox", "inbox"] {
        let side = stage.sides().into_iter().find(|side| side.queue.as_str() == queue);
        let Some(side) = side else { anyhow::bail!("there is no {queue}") };
        let seq = side.leased("a").await?.seq();
        for (spoil, mend) in [
            (
                format!("INSERT INTO {queue}_messages_line (seq, place, visible_at) VALUES ({seq}, '=a', 1)"),
                format!("DELETE FROM {queue}_messages_line"),
            ),
            (
                format!("UPDATE {queue}_messages_held SET from_seq = from_seq + 100, to_seq = to_seq + 100"),
                format!("UPDATE {queue}_messages_held SET from_seq = from_seq - 100, to_seq = to_seq - 100"),
            ),
        ] {
            let clean = found().await?;
            assert!(!format!("{clean:?}").contains("misplaced"), "{clean:?}");
            let text = spoil.clone();
            stage.store.write(move |tx| Ok(tx.execute_batch(&spoil)?)).await?;
            let report = found().await?;
            assert!(format!("{report:?}").contains("1 misplaced"), "after {text}: {report:?}");
            stage.store.write(move |tx| Ok(tx.execute_batch(&mend)?)).await?;
        }
    }
    Ok(())
}

async fn a_message_in_two_places_or_in_none_is_found_there_too(stage: &Stage<Postgres>) -> Verdict {
    let found = || async { stage.place.postgres_options()?.examine().await };
    for side in stage.sides() {
        let (table, seq) = (stage.table(side.queue.as_str()), side.leased("a").await?.seq());
        for (spoil, mend) in [
            (
                format!("INSERT INTO {table}_done (from_seq, to_seq, at, no) VALUES ({seq}, {seq}, 1, 1)"),
                format!("DELETE FROM {table}_done"),
            ),
            (
                format!("UPDATE {table}_lease SET no = DEFAULT"),
                format!("UPDATE {table}_held SET lease = no FROM {table}_lease"),
            ),
            (
                format!("CREATE TABLE kept AS SELECT * FROM {table}_held; DELETE FROM {table}_held"),
                format!("INSERT INTO {table}_held SELECT * FROM kept; DROP TABLE kept"),
            ),
        ] {
            let clean = found().await?;
            assert!(!format!("{clean:?}").contains("misplaced"), "{clean:?}");
            Postgres::tell(&stage.place, &spoil).await?;
            let report = found().await?;
            assert!(format!("{report:?}").contains("1 misplaced"), "after {spoil}: {report:?}");
            Postgres::tell(&stage.place, &mend).await?;
        }
    }
    Ok(())
}

/// Renewing a batch writes one row, and a lease does not stay when nothing is held under it.
async fn a_batch_has_one_lease_that_ends_with_it(stage: &Stage<Postgres>) -> Verdict {
    for side in stage.sides() {
        let sql = format!("SELECT count(*)::text FROM {}_lease", stage.table(side.queue.as_str()));
        let count = async || anyhow::Ok(Postgres::ask(&stage.place, &sql).await?.concat());
        let leases = batch(side, 6).await?;
        assert_eq!(side.verbs().extend(&leases, LEASE).await?, [true; 6]);
        assert_eq!(count().await?, "1", "renewed as a whole");
        side.ack(leases[3].clone()).await?;
        assert_eq!(side.verbs().extend(&[&leases[..3], &leases[4..]].concat(), LEASE).await?, [true; 5]);
        assert_eq!(count().await?, "1", "renewed as a whole, with all that is left");
        assert_eq!(side.verbs().extend(&leases[..2], LEASE).await?, [true; 2]);
        assert_eq!(count().await?, "2", "the renewed part has a lease of its own");
        assert_eq!(side.verbs().ack(leases[..2].to_vec()).await?.applied, 2);
        assert_eq!(count().await?, "1", "the last ack took it along");
        for lease in [&leases[2], &leases[4], &leases[5]] {
            side.ack(lease.clone()).await?;
        }
        stage.clock.advance(2 * LEASE);
        assert_eq!(side.verbs().reap(10).await?.total(), 0);
        assert_eq!(count().await?, "0", "whoever looks for leases that ran out deletes those that hold nothing");
    }
    Ok(())
}
