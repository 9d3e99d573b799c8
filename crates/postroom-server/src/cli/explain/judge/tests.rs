use postroom::operator::Scope;

use super::*;

const SECOND: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * SECOND)
}

/// A message that was stored at second 1000 and is ready.
fn ready() -> Seen {
    Seen {
        queue: Queue::Outbox,
        id: "x".into(),
        state: State::Ready,
        unreadable: None,
        topic: "order.placed".into(),
        party: None,
        created_at: Some(at(1000)),
        visible_at: Some(at(1000)),
        next_attempt_at: None,
        expires_at: None,
        last_attempt_at: None,
        processed_at: None,
        processed_by: None,
        owner: None,
        attempts: 0,
        crashes: 0,
        max_attempts: None,
        last_error: None,
        cause: None,
        hold: None,
        rule: None,
        lane: None,
        has_response: false,
        dismissal: None,
        is_fetched: false,
    }
}

/// Second 1100 on both clocks, with active workers.
fn around() -> Around {
    Around {
        now: at(1100),
        ours: at(1100),
        ahead: 3,
        held: 0,
        active_at: Some(at(1099)),
        maintained_at: Some(at(1000)),
    }
}

fn waits_until(second: i64) -> Seen {
    Seen { visible_at: Some(at(second)), ..ready() }
}

#[tokio::test]
async fn a_pause_is_told_with_who_and_why_and_how_to_end_it() {
    let outbox = postroom::Outbox::new(postroom::store::MemoryStore::new());
    let ada = || postroom::operator::Operator::new("ada").unwrap().because("they migrate").unwrap();
    for (scope, advice) in [
        (Scope::topic("order.placed").unwrap(), "postroom resume --topic order.placed"),
        (Scope::destination("billing").unwrap(), "postroom resume --destination billing"),
        (Scope::lane("order-7").unwrap(), "postroom resume --lane order-7"),
        (Scope::lanes("order.placed").unwrap(), "postroom resume --lanes-of order.placed"),
        (Scope::Queue, "postroom resume --all --queue outbox"),
    ] {
        assert!(outbox.queue().pause(scope.clone(), ada()).await.unwrap());
        let rule = outbox.queue().rules().await.unwrap().pop();
        let answer = judge(&Seen { rule, ..ready() }, &around());
        assert_eq!(answer.cause, "paused");
        assert!(answer.is.contains("by ada: they migrate") && !answer.is.contains("messages wait"), "{}", answer.is);
        assert!(answer.advice.contains(advice), "{}", answer.advice);
        outbox.queue().resume(scope, ada()).await.unwrap();
    }
}

/// The second of three in a lane, the first of which was claimed.
async fn second_in_a_lane(outbox: &postroom::Outbox) -> (Seen, postroom::queue::Lease) {
    for _ in 0..3 {
        outbox.enqueue(postroom::NewMessage::new("order.placed", "{}").lane("order-7")).await.unwrap();
    }
    let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(60), 1).await.unwrap();
    let lane = outbox.queue().lane_of(2).await.unwrap();
    (Seen { lane, ..ready() }, claims.claimed.into_iter().next().unwrap().lease)
}

#[tokio::test]
async fn behind_another_in_its_lane_the_first_one_is_what_matters() {
    let hands = postroom::clock::ManualClock::new(at(1100));
    let store = postroom::store::MemoryStore::with_clock(postroom::clock::Clock::Manual(hands.clone()));
    let outbox = postroom::Outbox::new(store);
    let (second, lease) = second_in_a_lane(&outbox).await;
    let first = second.lane.as_ref().unwrap().lane.first.id.clone();
    let answer = judge(&second, &around());
    assert_eq!(answer.cause, "in-lane");
    assert_eq!(answer.is, format!("It is second in lane order-7, behind {first}, which is in progress."));

    let _ = outbox.queue().abandon([lease], "no", Some(Duration::from_secs(3600))).await.unwrap();
    let later = Seen { lane: outbox.queue().lane_of(2).await.unwrap(), ..ready() };
    let answer = judge(&later, &around());
    assert_eq!(answer.next_at, Some(at(1100 + 3600)));
    assert!(answer.is.contains("which is retried at 1970-01-01 01:18 UTC"), "{}", answer.is);

    hands.advance(Duration::from_secs(3600));
    let claims = outbox.queue().claim(OwnerToken::new(), Duration::from_secs(60), 1).await.unwrap();
    let _ = outbox.queue().fail(claims.claimed.into_iter().map(|claimed| claimed.lease), "never").await.unwrap();
    let blocked = Seen { lane: outbox.queue().lane_of(2).await.unwrap(), ..ready() };
    let answer = judge(&blocked, &around());
    assert_eq!(answer.cause, "lane-blocked");
    assert!(answer.is.contains("which is dead and blocks the lane"), "{}", answer.is);
    assert!(answer.advice.contains(&format!("postroom revive {first}")), "{}", answer.advice);

    let dead = Seen { state: State::Dead, lane: outbox.queue().lane_of(1).await.unwrap(), ..ready() };
    let next = judge(&dead, &around()).next;
    assert!(next.ends_with("It blocks lane order-7, where 2 messages wait behind it."), "{next}");
}

#[test]
fn a_line_moves_only_where_somebody_works() {
    assert_eq!(judge(&ready(), &around()).cause, "in-line");
    assert!(judge(&ready(), &around()).is.contains("behind 3 others"));
    let alone = Around { active_at: Some(at(1000)), ..around() };
    assert_eq!(judge(&ready(), &alone).cause, "no-worker");
    assert_eq!(judge(&ready(), &Around { active_at: None, maintained_at: None, ..around() }).cause, "no-worker");
    let slow = Around { held: 1, active_at: Some(at(500)), ..around() };
    assert_eq!(judge(&ready(), &slow).cause, "in-line", "a handler takes long");
    let fresh = Seen { visible_at: Some(at(1099)), ..ready() };
    assert_eq!(judge(&fresh, &alone).cause, "in-line", "an idle worker has not had the time yet");
    assert_eq!(judge(&Seen { crashes: 1, ..ready() }, &around()).cause, "claimed-alone");
}

#[test]
fn a_clock_is_the_cause_only_where_it_matters() {
    assert_eq!(judge(&waits_until(1150), &around()).cause, "not-due");
    let behind = Around { ours: at(1200), ..around() };
    let answer = judge(&waits_until(1150), &behind);
    assert_eq!((answer.cause, answer.next_at), ("clock", Some(at(1150))));
    assert!(answer.is.contains("100 s behind"), "{answer:?}");
    assert_eq!(judge(&waits_until(1900), &behind).cause, "not-due", "by either clock");
    assert_eq!(judge(&waits_until(1150), &Around { ours: at(1159), ..around() }).cause, "not-due", "within a minute");
    let tomorrow = Seen { created_at: Some(at(90_000)), visible_at: Some(at(90_000)), ..ready() };
    assert_eq!(judge(&tomorrow, &around()).cause, "clock");
    assert_eq!(judge(&ready(), &behind).cause, "in-line");
}

#[test]
fn a_line_is_not_counted_to_its_end() {
    let long = Around { ahead: LINE_MAX + 1, ..around() };
    assert!(judge(&ready(), &long).is.contains("behind more than 10,000 others"));
    assert!(judge(&ready(), &Around { ahead: 0, ..around() }).is.contains("first in the queue"));
}

#[test]
fn a_dismissed_message_says_who_dismissed_it_and_why() {
    let dismissal = Some(("ada".to_owned(), "a test order".to_owned()));
    let (state, processed_at, last_error) = (State::Dismissed, Some(at(1050)), Some("no such order".to_owned()));
    let told = judge(&Seen { state, processed_at, last_error, dismissal, ..ready() }, &around());
    assert_eq!(told.cause, "dismissed");
    assert!(told.is.contains("by ada: a test order.") && told.is.contains("no such order"), "{}", told.is);
    assert!(told.advice.contains("postroom revive x"), "{}", told.advice);
}
