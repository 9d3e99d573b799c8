//! The actions of the page.

use super::*;

#[tokio::test]
async fn one_message_a_group_and_all_can_be_retried_after_they_were_counted() {
    let node = Node::new();
    node.give_up("a", &["order 1", "order 2", "timeout", "timeout", "timeout"]).await;
    let group = group_in(&node.view("failed").await, "order #</span></a>");
    for (which, messages) in [(json!({ "row": 3 }), 1), (json!({ "group": group }), 2), (json!({ "all": true }), 2)] {
        let with = |dry_run: bool| {
            let mut body = which.clone();
            body["dryRun"] = dry_run.into();
            body
        };
        let before = node.dead().await;
        let would = node.act("revive", with(true)).await.json();
        assert_eq!((&would["messages"], node.dead().await), (&json!(messages), before), "{would}");
        assert!(would["told"].as_str().unwrap().contains("would be requeued"), "{would}");
        let done = node.act("revive", with(false)).await.json();
        assert_eq!((&done["messages"], node.dead().await), (&json!(messages), before - messages), "{done}");
    }
    assert_eq!(node.act("revive", json!({ "queue": "inbox", "all": true })).await.json()["messages"], 0);
}

#[tokio::test]
async fn of_very_many_the_newest_are_grouped_searched_and_retried_alike() {
    let node = Node::new();
    let give_up = async |topic: &str, messages: usize| {
        for _ in 0..messages {
            node.outbox.enqueue(NewMessage::new(topic, "{}")).await.unwrap();
        }
        let claims = node.outbox.queue().claim(OwnerToken::new(), LEASE, messages).await.unwrap().claimed;
        let _ = node.outbox.queue().fail(claims.into_iter().map(|claimed| claimed.lease), "x").await.unwrap();
    };
    give_up("ancient", 10).await;
    give_up("new", LOOKED_AT_MAX).await;
    let html = node.view("failed").await;
    assert!(html.contains("retries only the newest 1,500") && !html.contains("ancient"), "{html}");
    assert!(node.view("failed?q=ancient").await.contains("No message matches."));
    let group = group_in(&html, "x</span></a></td><td data-label=\"Topic\">new");
    for dry_run in [true, false] {
        let done = node.act("revive", json!({ "group": group, "dryRun": dry_run })).await.json();
        assert_eq!((&done["messages"], &done["isBounded"]), (&json!(LOOKED_AT_MAX), &json!(true)), "{done}");
    }
    let html = node.view("failed").await;
    assert!(html.contains("ancient") && !html.contains("only the newest"), "{html}");
}

#[tokio::test]
async fn those_of_a_group_that_match_are_retried_and_no_others() {
    let node = Node::new();
    node.give_up("a", &["order 17", "order 98765", "order 4"]).await;
    let group = group_in(&node.view("failed").await, "order #</span></a>");
    let html = node.view(&format!("failed?group={group}&q=98765")).await;
    assert!(html.contains(&format!("data-group=\"{group}\" data-q=\"98765\">Retry all that match")), "{html}");
    assert_eq!(node.act("revive", json!({ "group": group, "q": "98765" })).await.json()["messages"], 1);
    assert_eq!(node.dead().await, 2);
}

#[tokio::test]
async fn a_retry_can_be_late_and_slow() {
    let node = Node::new();
    node.give_up("b", &["y"]).await;
    let done = node.act("revive", json!({ "row": 1, "after": "1h" })).await.json();
    assert_eq!(done["told"], "1 message was requeued and is due in 1h.");
    node.give_up("a", &["x", "x", "x"]).await;
    let asked = json!({ "q": "x", "after": "10s", "perSecond": 2 });
    let done = node.act("revive", asked).await.json();
    assert_eq!(done["told"], "3 messages were requeued; the last one is due in 11s.");
    let queue = node.outbox.queue();
    node.clock.advance(Duration::from_millis(10_500));
    assert_eq!(queue.claim(OwnerToken::new(), LEASE, 10).await.unwrap().claimed.len(), 2);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let node = Node::new();
    node.give_up("a", &["x"]).await;
    for (what, body) in [
        ("revive", json!({})),
        ("revive", json!({ "q": " " })),
        ("revive", json!({ "group": "" })),
        ("revive", json!({ "all": true, "perSecond": 0 })),
        ("revive", json!({ "all": true, "after": "soon" })),
        ("revive", json!({ "all": true, "after": "999d" })),
        ("revive", json!({ "all": true, "ttl": "0s" })),
        ("revive", json!({ "all": true, "colour": "red" })),
        ("revive", json!({ "all": true, "dismissed": true })),
        ("dismiss", json!({ "by": "ada", "why": "obsolete" })),
        ("dismiss", json!({ "all": true })),
        ("dismiss", json!({ "all": true, "by": "ada", "why": " " })),
        ("dismiss", json!({ "all": true, "by": "x".repeat(256), "why": "obsolete" })),
        ("dismiss", json!({ "group": "", "by": "ada", "why": "obsolete" })),
        ("cancel", json!({})),
        ("cancel", json!({ "row": 1, "all": true })),
        ("expire", json!({ "queue": "both" })),
        ("purge", json!({ "queue": "outbox" })),
        ("purge", json!({ "olderThan": "long" })),
        // The inbox must recognise duplicates of everything that the receiver accepts.
        ("purge", json!({ "queue": "inbox", "olderThan": "59m" })),
    ] {
        let said = node.act(what, body.clone()).await;
        assert!(said.status.is_client_error(), "{what} {body}: {}", said.status);
        assert!(said.json()["advice"].is_string(), "{}", said.text);
    }
    assert_eq!(node.dead().await, 1);
}

#[tokio::test]
async fn what_expired_needs_a_new_life() {
    let node = Node::new();
    let key = InboxKey::new("stripe", "evt_1").unwrap();
    node.outbox.enqueue(NewMessage::new("a", "{}").expires_after(LEASE)).await.unwrap();
    node.inbox.accept(Incoming::new(key, "a", "{}").expires_after(LEASE)).await.unwrap();
    node.clock.advance(LEASE);
    for queue in ["outbox", "inbox"] {
        assert_eq!(node.act("expire", json!({ "queue": queue, "dryRun": true })).await.json()["messages"], 1);
        assert_eq!(node.act("expire", json!({ "queue": queue })).await.json()["told"], "1 message was expired.");
        let without = node.act("revive", json!({ "queue": queue, "row": 1 })).await.json();
        assert_eq!((&without["messages"], &without["stillExpired"]), (&json!(0), &json!(1)), "{without}");
        let with = node.act("revive", json!({ "queue": queue, "row": 1, "ttl": "1h" })).await.json();
        assert_eq!(with["messages"], 1, "{with}");
    }
}

#[tokio::test]
async fn one_message_is_cancelled_while_it_waits_or_is_in_progress() {
    let node = Node::new();
    node.outbox.enqueue_many(vec![NewMessage::new("a", "{}"), NewMessage::new("a", "{}")]).await.unwrap();
    node.outbox.queue().claim(OwnerToken::new(), LEASE, 1).await.unwrap();
    for (row, told) in [
        (2, ["The message would be cancelled.", "The message was cancelled."]),
        (
            1,
            [
                "The message is in progress and would be asked to stop.",
                "The message is in progress and was asked to stop.",
            ],
        ),
    ] {
        let story = node.view(&format!("message?row={row}")).await;
        assert!(story.contains("data-act=\"cancel\""), "{story}");
        for (dry_run, told) in [true, false].into_iter().zip(told) {
            let said = node.act("cancel", json!({ "row": row, "why": "a test", "dryRun": dry_run })).await.json();
            assert_eq!((&said["told"], &said["messages"]), (&json!(told), &json!(1)));
        }
    }
    let said = node.act("cancel", json!({ "row": 2 })).await.json();
    assert_eq!((&said["told"], &said["messages"]), (&json!("It is too late: the message has ended."), &json!(0)));
    assert!(!node.view("message?row=2").await.contains("data-act=\"cancel\""));
    assert!(node.view("dismissed").await.contains("cancelled: a test"));
}

#[tokio::test]
async fn a_lane_is_cancelled_from_the_overview() {
    let node = Node::new();
    node.outbox.enqueue_many((0..3).map(|_| NewMessage::new("a", "{}").lane("order-7"))).await.unwrap();
    node.outbox.queue().claim(OwnerToken::new(), LEASE, 1).await.unwrap();
    let overview = node.view("overview").await;
    assert!(overview.contains("data-act=\"cancel\" data-queue=\"outbox\" data-lane=\"order-7\""), "{overview}");
    let act = async |dry_run: bool| node.act("cancel", json!({ "lane": "order-7", "dryRun": dry_run })).await.json();
    let said = act(true).await;
    assert_eq!((&said["told"], &said["messages"]), (&json!("3 messages of the lane would be cancelled."), &json!(3)));
    let said = act(false).await;
    let told = "2 messages of the lane cancelled; 1 in progress asked to stop.";
    assert_eq!((&said["told"], &said["messages"]), (&json!(told), &json!(3)));
    assert_eq!(node.outbox.queue().stats().await.unwrap().dismissed, 2);
    let both = node.act("cancel", json!({ "lane": "order-7", "row": 1 })).await;
    assert_eq!(both.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn only_what_was_done_is_deleted() {
    let node = Node::new();
    node.give_up("a", &["x"]).await;
    node.outbox.enqueue(NewMessage::new("b", "{}")).await.unwrap();
    let lease = node.outbox.queue().claim(OwnerToken::new(), LEASE, 1).await.unwrap().claimed.remove(0).lease;
    let _ = node.outbox.queue().ack([lease]).await.unwrap();
    node.clock.advance(LEASE);
    for (dry_run, told) in [(true, "1 message would be deleted."), (false, "1 message was deleted.")] {
        let said = node.act("purge", json!({ "olderThan": "10s", "dryRun": dry_run })).await.json();
        assert_eq!(said["told"], told);
    }
    let left = node.outbox.queue().list(Filter::all()).await.unwrap();
    assert_eq!(left.iter().map(postroom::operator::Record::state).collect::<Vec<_>>(), [State::Dead]);
    assert_eq!(node.outbox.queue().kind(), Queue::Outbox);
}

#[tokio::test]
async fn one_message_a_group_what_matches_and_all_can_be_dismissed_after_they_were_counted() {
    let node = Node::new();
    node.give_up("a", &["order 1", "order 2", "timeout", "timeout", "refused", "timeout"]).await;
    let group = group_in(&node.view("failed").await, "order #</span></a>");
    let whiches = [json!({ "row": 3 }), json!({ "group": group }), json!({ "q": "REFUSED" }), json!({ "all": true })];
    for (which, messages) in whiches.into_iter().zip([1, 2, 1, 2]) {
        let before = node.dead().await;
        let mut body = which;
        body["dryRun"] = true.into();
        let would = node.act("dismiss", body.clone()).await.json();
        assert_eq!((&would["messages"], node.dead().await), (&json!(messages), before), "{would}");
        assert!(would["told"].as_str().unwrap().contains("would be dismissed"), "{would}");
        (body["dryRun"], body["by"], body["why"]) = (false.into(), "ada".into(), "a <b>test</b>".into());
        let done = node.act("dismiss", body).await.json();
        assert_eq!((&done["messages"], node.dead().await), (&json!(messages), before - messages), "{done}");
    }
    assert_eq!(node.outbox.queue().stats().await.unwrap().dismissed, 6);
    assert!(node.view("failed").await.contains("No message has failed"));
    assert!(node.view("overview").await.contains("data-live=\"outbox.dismissed\">6<"));
    assert!(node.view("dismissed?queue=inbox").await.contains("The inbox has no dismissed messages."));
    let listed = node.view("dismissed").await;
    assert!(listed.contains("ada") && listed.contains("a &lt;b&gt;test&lt;/b&gt;"), "{listed}");
}

#[tokio::test]
async fn what_was_dismissed_by_mistake_is_put_back_one_by_one() {
    let node = Node::new();
    node.give_up("a", &["x", "x"]).await;
    let done = node.act("dismiss", json!({ "all": true, "by": "ada", "why": "obsolete" })).await.json();
    assert_eq!(done["told"], "2 messages were dismissed.");
    let story = node.view("message?row=1").await;
    assert!(story.contains("data-dismissed>Requeue") && story.contains("obsolete"), "{story}");
    assert_eq!(node.act("revive", json!({ "all": true })).await.json()["messages"], 0, "nobody meant those");
    assert_eq!(node.act("revive", json!({ "row": 1 })).await.json()["messages"], 0);
    for (dry_run, told) in [(true, "1 message would be requeued."), (false, "1 message was requeued.")] {
        let done = node.act("revive", json!({ "row": 1, "dismissed": true, "dryRun": dry_run })).await.json();
        assert_eq!(done["told"], told);
    }
    let stats = node.outbox.queue().stats().await.unwrap();
    assert_eq!((stats.ready, stats.dismissed), (1, 1));
}

#[tokio::test]
async fn what_is_done_here_stands_in_the_audit_trail_under_the_name_of_the_token() {
    let node = Node::new();
    assert!(node.view("audit").await.contains("Nobody has changed messages by hand."));
    node.give_up("a", &["x", "x", "y"]).await;
    let done = node.act("revive", json!({ "q": "x", "why": "billing <is> back" })).await.json();
    assert_eq!(done["messages"], 2);
    node.clock.advance(LEASE);
    assert_eq!(node.act("revive", json!({ "q": "y", "dryRun": true })).await.json()["messages"], 1);
    assert_eq!(node.act("dismiss", json!({ "row": 3, "by": "ada", "why": "obsolete" })).await.json()["messages"], 1);
    let trail = node.view("audit").await;
    let (dismissed, revived) = (trail.find("dismiss, outbox").unwrap(), trail.find("revive, outbox").unwrap());
    assert!(dismissed < revived, "the newest first: {trail}");
    for part in ["writer", "billing &lt;is&gt; back", "with &quot;x&quot;", "obsolete", "row 3"] {
        assert!(trail.contains(part), "{part}: {trail}");
    }
    assert_eq!(node.outbox.queue().audit(10).await.unwrap().len(), 2, "what was only counted is no act");
}
