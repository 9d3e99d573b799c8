//! The numbers, by the names people know.

use std::time::Duration;

use postroom::queue::{Queue, State};
use postroom::telemetry::metric;
use postroom::{HandlerError, WorkerOptions};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, LEASE, Stage, Testable, eventually};
use crate::script::Script;

cases! { metrics:
    worker handling_is_timed ["SQM-11.1.2", "SQM-11.1.7"];
    worker retries_are_counted_once_it_is_done ["SQM-11.1.3"];
    both deaths_are_counted ["SQM-11.1.4"];
    both a_death_that_did_not_happen_is_not_counted ["SQM-11.1.4"];
    both expiries_are_counted_wherever_they_happen ["SQM-11.1.5"];
    both deaths_by_crashes_are_counted ["SQM-11.1.4"];
    both duplicates_are_counted ["SQM-11.1.6"];
    worker the_backlog_is_shown ["SQM-11.1.1", "SQM-11.1.8"];
    both lanes_are_measured [];
}

async fn handling_is_timed<B: Testable>(stage: &Stage<B>) -> Verdict {
    for (side, name) in stage.sides().into_iter().zip([metric::OUTBOX_SEND_MS, metric::INBOX_PROCESS_MS]) {
        let worker = stage.work(side.queue, &Script::succeed(), WorkerOptions::default());
        side.add_many("a", 5).await?;
        eventually("all are done", || async move { Ok(side.verbs().stats().await?.done == 5) }).await?;
        worker.stop().await?;
        let times = stage.setup.meters.values(name);
        assert_eq!(times.len(), 5, "{name}");
        assert!(times.iter().all(|ms| *ms >= 0.0));
    }
    Ok(())
}

async fn retries_are_counted_once_it_is_done<B: Testable>(stage: &Stage<B>) -> Verdict {
    let script =
        Script::new(
            |call| async move { if call.attempt < 3 { Err(HandlerError::retry("not yet")) } else { Ok(None) } },
        );
    let side = stage.side(Queue::Outbox);
    let worker = stage.work(side.queue, &script, WorkerOptions::default());
    side.add("a").await?;
    let done = || async move {
        stage.skip_pause(side.queue).await?;
        Ok(side.verbs().stats().await?.done == 1)
    };
    eventually("it is done", done).await?;
    worker.stop().await?;
    assert_eq!(stage.setup.meters.values(metric::OUTBOX_RETRIES), [2.0]);
    Ok(())
}

async fn deaths_are_counted(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    for n in 1..=3 {
        let lease = side.leased("a").await?;
        side.fail(lease, "x").await?;
        assert_eq!(h.setup.meters.values(metric::OUTBOX_FAILED).len(), n);
    }
    Ok(())
}

async fn a_death_that_did_not_happen_is_not_counted(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let stale = side.leased("a").await?;
    side.ack(stale.clone()).await?;
    assert_eq!(side.verbs().fail([stale], "x").await?.lost, 1);
    assert_eq!(h.setup.meters.values(metric::OUTBOX_FAILED), [0.0; 0]);
    Ok(())
}

async fn expiries_are_counted_wherever_they_happen(h: &Harness) -> Verdict {
    for (side, counter) in h.sides().into_iter().zip([metric::OUTBOX_EXPIRED, metric::INBOX_EXPIRED]) {
        let mut expected = 0.0;
        for how in ["expire", "abandon", "claim"] {
            side.put(&Draft::new("a").ttl(LEASE)).await?;
            let lease = if how == "abandon" { Some(side.claim_one().await?) } else { None };
            h.clock.advance(LEASE);
            match (how, lease) {
                ("expire", _) => assert_eq!(side.verbs().expire(10).await?, 1),
                ("claim", _) => assert!(side.claim(10).await?.is_empty()),
                (_, lease) => assert_eq!(side.verbs().abandon(lease, "x", None).await?.expired, 1),
            }
            expected += 1.0;
            assert!((h.setup.meters.sum(counter) - expected).abs() < 0.1, "{counter}: expired by {how}");
        }
    }
    Ok(())
}

async fn deaths_by_crashes_are_counted(h: &Harness) -> Verdict {
    let side = h.side(Queue::Outbox);
    let seq = side.add("a").await?;
    while side.state(seq).await? != State::Dead {
        side.claim(1).await?;
        h.clock.advance(LEASE + Duration::from_secs(60));
        let _ = side.verbs().reap(10).await?;
    }
    assert!((h.setup.meters.sum(metric::OUTBOX_FAILED) - 1.0).abs() < 0.1);
    Ok(())
}

async fn duplicates_are_counted(h: &Harness) -> Verdict {
    let draft = Draft::new("a");
    for _ in 0..3 {
        h.inbox.enqueue(draft.incoming()?).await?;
    }
    assert!((h.setup.meters.sum(metric::INBOX_DUPLICATES) - 2.0).abs() < 0.1);
    Ok(())
}

async fn the_backlog_is_shown<B: Testable>(stage: &Stage<B>) -> Verdict {
    for (side, name) in stage.sides().into_iter().zip([metric::OUTBOX_PENDING, metric::INBOX_SIZE]) {
        let due = stage.now().plus(LEASE);
        for _ in 0..4 {
            side.put(&Draft::new("later").due_at(due)).await?;
        }
        let worker = stage.work(side.queue, &Script::succeed(), WorkerOptions::default());
        let shown = || async { Ok(stage.setup.meters.values(name).last() == Some(&4.0)) };
        eventually("the backlog is shown", shown).await?;
        worker.stop().await?;
        // Within an interval only one worker of a store counts.
        stage.clock.advance(Duration::from_secs(300));
    }
    Ok(())
}

async fn lanes_are_measured(h: &Harness) -> Verdict {
    let names = [metric::LANE_DEPTH, metric::LANE_AGE, metric::LANES_BLOCKED];
    for side in h.sides() {
        let measured = async || {
            side.verbs().measure().await?;
            anyhow::Ok(names.map(|name| h.setup.meters.values(name).last().copied()))
        };
        assert_eq!(measured().await?, [Some(0.0); 3]);
        for lane in ["order-7", "order-7", "order-8"] {
            side.put(&Draft::new("a").lane(lane)).await?;
        }
        h.clock.advance(LEASE);
        assert_eq!(measured().await?, [Some(2.0), Some(LEASE.as_secs_f64()), Some(0.0)]);
        side.fail(side.claim(1).await?.remove(0).lease, "never").await?;
        assert_eq!(measured().await?, [Some(2.0), Some(LEASE.as_secs_f64()), Some(1.0)]);
    }
    Ok(())
}
