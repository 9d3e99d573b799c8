//! A COMMIT without an answer: the mark tells whether it was one.

use postroom::ErrorKind;
use postroom::idempotent::{Idempotent, IdempotentOptions, Once, Unhandled};
use postroom_testbed::Proxy;

use super::{delivery, forward, forwarded, handler, with};
use crate::by_wire::ByWire;
use crate::case::{Verdict, cases};
use crate::harness::Stage;
use crate::script::Script;

cases! { idempotent:
    server a_commit_that_was_carried_out_is_not_run_again [];
    server a_commit_that_was_not_carried_out_is_run_again [];
    server marked_before_handling_a_commit_without_an_answer_keeps_the_claim [];
}

const MESSAGES: usize = 10;

/// The commit of each message is cut; returns how often the handler ran.
async fn runs<B: ByWire>(stage: &Stage<B>, cut: fn(&Proxy, &str)) -> anyhow::Result<usize> {
    let (proxy, store) = stage.behind_proxy().await?;
    let script = Script::succeed();
    let consumer: Idempotent<B> = handler(&store, "reserve", &script)?;
    for _ in 0..MESSAGES {
        let incoming = delivery()?;
        cut(&proxy, incoming.key().message_id());
        assert_eq!(consumer.run_message(incoming.clone(), forward::<B>).await?, Once::Ran(None));
        assert_eq!(consumer.run_message(incoming, forward::<B>).await?, Once::Duplicate);
    }
    assert_eq!((proxy.cuts(), forwarded(stage).await?), (MESSAGES as u64, MESSAGES));
    Ok(script.count())
}

async fn a_commit_that_was_carried_out_is_not_run_again<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(runs(stage, Proxy::cut_commit_of).await?, MESSAGES);
    Ok(())
}

async fn a_commit_that_was_not_carried_out_is_run_again<B: ByWire>(stage: &Stage<B>) -> Verdict {
    assert_eq!(runs(stage, Proxy::lose_commit_of).await?, 2 * MESSAGES);
    Ok(())
}

/// Nothing in the handler's transaction tells whether it was committed: twice would be worse than never.
async fn marked_before_handling_a_commit_without_an_answer_keeps_the_claim<B: ByWire>(stage: &Stage<B>) -> Verdict {
    let (proxy, store) = stage.behind_proxy().await?;
    let options = IdempotentOptions::default().release_claim_on_error(true);
    let consumer: Idempotent<B> = with(&store, "reserve", &Script::succeed(), options)?;
    let cuts: [fn(&Proxy, &str); 2] = [Proxy::cut_commit_of, Proxy::lose_commit_of];
    for cut in cuts {
        let incoming = delivery()?;
        cut(&proxy, "forwarded");
        let unanswered = consumer.run_message(incoming.clone(), forward::<B>).await;
        assert!(matches!(unanswered, Err(Unhandled::Store(error)) if error.kind() == ErrorKind::InDoubt));
        assert_eq!(consumer.run_message(incoming, forward::<B>).await?, Once::Duplicate);
        assert_eq!(forwarded(stage).await?, 1, "only the first was carried out");
    }
    Ok(())
}
