//! The views of the page.

use super::*;

#[tokio::test]
async fn the_overview_counts_and_offers_only_what_the_token_may() {
    let node = Node::new();
    node.give_up("a", &["x"]).await;
    let html = node.view("overview").await;
    assert!(html.contains("data-live=\"outbox.dead\">1<") && html.contains("data-act=\"purge\""), "{html}");
    assert!(html.contains("No services are configured"));
    let said = node.ask(Method::GET, VIEWS[0], Some(&node.read), &Value::Null).await.text;
    assert!(!said.contains("data-act") && said.contains("This token can only read"), "{said}");
}

#[tokio::test]
async fn the_overview_says_where_each_service_stands() {
    let key = Key::new("2026-11", Secret::parse(&Secret::generate()).unwrap()).unwrap();
    // Nothing listens on port 9 of this machine.
    let billing = Service::new("billing", "http://127.0.0.1:9").keys(key);
    let courier = Courier::new(Services::new("shop").service(billing)).unwrap();
    let node = Node::with(courier.clone());
    assert!(node.view("overview").await.contains("data-way-state>OK<"));
    for _ in 0..7 {
        node.outbox.enqueue(NewMessage::new("a", "{}").to("billing")).await.unwrap();
    }
    let worker = Worker::<Memory>::outbox(node.store.clone(), Handlers::new()).transport(courier);
    let (worker, (end, ended)) = (worker.places(node.places.clone()), tokio::sync::oneshot::channel::<()>());
    let looking = async {
        let queue = node.outbox.queue();
        while queue.holds().await.unwrap().is_empty() || queue.stats().await.unwrap().ready < 7 {
            tokio::task::yield_now().await;
        }
        let html = node.view("overview").await;
        assert!(html.contains("badge bad\" data-way-state>circuit open after"), "{html}");
        assert!(html.contains("7 messages wait for billing since 20"), "{html}");
        assert!(html.contains("Connection refused") && html.contains("unreachable"), "{html}");
        let health = node.ask(Method::GET, "/_rf/health", Some(&node.read), &Value::Null).await.json();
        assert_eq!(health["reasons"][0]["kind"], "destination", "{health}");
        assert!(health["reasons"][0]["what"].as_str().unwrap().starts_with("7 messages wait for billing"), "{health}");
        drop(end);
    };
    let (ran, ()) = tokio::join!(worker.run(async { drop(ended.await) }), looking);
    ran.unwrap();
}

#[tokio::test]
async fn lanes_are_shown_with_what_their_first_messages_do() {
    let node = Node::new();
    node.outbox.enqueue(NewMessage::new("a", "{}").lane("alone")).await.unwrap();
    assert!(!node.view("overview").await.contains("lanes-title"), "nobody waits");
    for _ in 0..3 {
        node.outbox.enqueue(NewMessage::new("a", "{}").lane("order-<7>")).await.unwrap();
    }
    let html = node.view("overview").await;
    assert!(html.contains("2 lanes have messages in the outbox; none is blocked."), "{html}");
    assert!(html.contains("data-lane=\"order-&lt;7&gt;\"") && !html.contains("data-lane=\"alone\""), "{html}");
    assert!(html.contains("#/message?queue=outbox&amp;row=2") && html.contains("waits for a worker"), "{html}");
    let third = node.view("message?row=4").await;
    assert!(third.contains("third in lane order-&lt;7&gt;, behind <a"), "{third}");

    let claimed = node.outbox.queue().claim(OwnerToken::new(), LEASE, 2).await.unwrap().claimed;
    let _ = node.outbox.queue().fail(claimed.into_iter().map(|claimed| claimed.lease), "never").await.unwrap();
    let html = node.view("overview").await;
    assert!(html.contains("2 are blocked") && html.contains("badge bad\">blocked"), "{html}");
    assert!(html.contains("A blocked lane goes on when its first message is retried or dismissed."), "{html}");
    let first = node.view("message?row=2").await;
    assert!(first.contains("first in lane order-&lt;7&gt;; 2 messages wait behind it"), "{first}");
    let health = node.ask(Method::GET, "/_rf/health", Some(&node.read), &Value::Null).await.json();
    let reason = health["reasons"].as_array().unwrap().iter().find(|reason| reason["kind"] == "lane").unwrap();
    assert_eq!(reason["what"], "the lane alone and 1 other in the outbox are blocked by a dead message");
}

#[tokio::test]
async fn failures_are_grouped_by_what_they_say() {
    let node = Node::new();
    assert!(node.view("failed").await.contains("No message has failed in the outbox"));
    node.give_up("a", &["order 7 has no item", "order 8 has no item", "timeout"]).await;
    node.give_up("b", &["order 9 has no item"]).await;
    let html = node.view("failed").await;
    assert_eq!(html.matches("order # has no item</span></a>").count(), 2, "a topic each: {html}");
    assert!(html.contains("data-label=\"Messages\">2<"), "{html}");
    let group = group_in(&html, "order # has no item</span></a></td><td data-label=\"Topic\">a");
    let html = node.view(&format!("failed?group={group}")).await;
    assert!(html.contains("order 7 has") && html.contains("order 8 has") && !html.contains("order 9 has"), "{html}");
    let gone = node.view("failed?group=00").await;
    assert!(gone.contains("This group has no messages any more") && gone.contains("← All groups"), "{gone}");
    assert_eq!(node.act("revive", json!({ "group": "00" })).await.status, StatusCode::NOT_FOUND);
    let inbox = node.view("failed?queue=inbox").await;
    assert!(inbox.contains("No message has failed in the inbox"), "{inbox}");
    let wrong = node.ask(Method::GET, "/admin/view/failed?queue=letters", Some(&node.read), &Value::Null).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn what_failed_is_searched_and_paged() {
    let node = Node::new();
    let errors: Vec<_> = (0..60).map(|n| format!("failure {n}")).collect();
    node.give_up("a", &errors.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let first = node.view("failed").await;
    assert_eq!(first.matches("class=\"id\"").count(), 50);
    let next = first.split("#/").last().unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let second = node.view(&next).await;
    assert_eq!(second.matches("class=\"id\"").count(), 10);
    assert!(second.contains("First page") && !second.contains("Next page"));
    let found = node.view("failed?q=FAILURE%205").await;
    assert_eq!(found.matches("class=\"id\"").count(), 11, "5 and 50 to 59");
    assert!(node.view("failed?q=nothing%20like%20it").await.contains("No message matches."));
    let long = "x".repeat(201);
    let said = node.ask(Method::GET, &format!("/admin/view/failed?q={long}"), Some(&node.read), &Value::Null).await;
    assert_eq!(said.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_payload_is_shown_only_to_those_who_may_see_it() {
    let node = Node::new();
    node.outbox
        .enqueue(
            NewMessage::new("a", "payload-of-it").header("x-part", "value-of-it").header("x-api-key", "secret-of-it"),
        )
        .await
        .unwrap();
    let story = "/admin/view/message?row=1";
    for token in [&node.read, &node.write] {
        let said = node.ask(Method::GET, story, Some(token), &Value::Null).await;
        assert!(!said.text.contains("-of-it"), "{}", said.text);
        assert_eq!(said.text.matches("hidden, because this token lacks the scope payload").count(), 3);
        assert!(said.text.contains("x-part") && said.text.contains("13 bytes"));
    }
    let open = node.ask(Method::GET, story, Some(&node.payload), &Value::Null).await.text;
    assert!(open.contains("payload-of-it") && open.contains("value-of-it") && !open.contains("secret-of-it"), "{open}");
}

#[tokio::test]
async fn a_story_tells_every_attempt_and_who_holds_it() {
    let node = Node::new();
    node.outbox.enqueue(NewMessage::new("a", "{}").to("billing").correlation_id("order-7")).await.unwrap();
    let queue: &WorkQueue = node.outbox.queue();
    for error in ["no route", "still none"] {
        let lease = queue.claim(OwnerToken::new(), LEASE, 1).await.unwrap().claimed.remove(0).lease;
        let _ = queue.abandon([lease], error, Some(Duration::from_secs(1))).await.unwrap();
        node.clock.advance(LEASE);
    }
    let owner = OwnerToken::new();
    queue.claim(owner, LEASE, 1).await.unwrap();
    let html = node.view("message?row=1").await;
    for part in ["Attempt 1", "no route", "Attempt 2", "still none", "billing", "order-7", "Leased until", "leased"] {
        assert!(html.contains(part), "no {part}: {html}");
    }
    assert!(
        html.contains(&owner.to_string()) && !html.contains("data-act=\"revive"),
        "a leased message cannot be retried"
    );
    let missing = node.ask(Method::GET, "/admin/view/message?row=9", Some(&node.read), &Value::Null).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let id = queue.list(Filter::all()).await.unwrap()[0].message().unwrap().id();
    assert!(node.view(&format!("find?id={id}")).await.contains(&id));
    let unknown = node.ask(Method::GET, "/admin/view/find?id=nobody", Some(&node.read), &Value::Null).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_others_answered_is_shown_only_to_those_who_may_see_payloads() {
    let node = Node::new();
    node.give_up("a", &["it answered 422\nIvy is unknown", "it answered 422\nTom is unknown"]).await;
    let group = group_in(&node.view("failed").await, "it answered #</span></a>");
    for path in ["failed", "message?row=1", &format!("failed?group={group}"), "failed?q=answered"] {
        let html = node.view(path).await;
        assert!(html.contains("it answered") && !html.contains("unknown"), "{path}: {html}");
    }
    assert!(node.view("failed?q=Ivy").await.contains("No message matches."), "a search would tell it as well");
    assert_eq!(node.act("revive", json!({ "q": "ivy", "dryRun": true })).await.json()["messages"], 0);
    let listed = node.ask(Method::GET, "/_rf/outbox/failed", Some(&node.read), &Value::Null).await.text;
    assert!(listed.contains("it answered 422") && !listed.contains("unknown"), "{listed}");
    let open = node.ask(Method::GET, VIEWS[1], Some(&node.payload), &Value::Null).await.text;
    assert!(open.contains("Ivy is unknown") && open.contains("it answered # Tom is unknown</span></a>"), "{open}");
    let open = node.ask(Method::GET, VIEWS[2], Some(&node.payload), &Value::Null).await.text;
    assert!(open.contains("Ivy is unknown"), "{open}");
}
