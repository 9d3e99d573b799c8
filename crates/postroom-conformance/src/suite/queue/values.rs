//! What is given comes back as it was.

use std::time::Duration;

use postroom::clock::Timestamp;
use postroom::message::{ContentHash, Kind, Origin, hash_bytes, hash_value};
use postroom::{InboxKey, Incoming, NewMessage};

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Harness, readable};

cases! { values:
    both an_empty_payload_is_a_payload ["OBX-006", "IBX-019"];
    both a_payload_is_not_looked_into ["OBX-011", "IBX-022"];
    both a_payload_of_eight_mebibytes_comes_back_whole ["OBX-096", "IBX-118"];
    both every_character_comes_back ["OBX-011", "IBX-022"];
    both times_are_kept_to_the_microsecond [];
    both an_empty_correlation_id_is_none ["OBX-008"];
    both what_travels_beside_the_payload_comes_back ["SQM-3.1.1", "API-1.5.1", "API-4.1"];
    both names_are_compared_byte_by_byte ["OBX-010", "IBX-021", "IBX-001"];
    both hashes_are_sha_256 ["IBX-129", "IBX-007", "API-8"];
    both payloads_are_not_printed ["OBX-106", "IBX-127"];
}

async fn roundtrip(h: &Harness, payload: &str) -> Verdict {
    for side in h.sides() {
        let seq = side.put(&Draft::new("a").payload(payload)).await?;
        let stored = side.record(seq).await?;
        assert!(readable(&stored)?.payload == payload, "{}: another payload", side.queue);
        let claimed = side.claim(10).await?.remove(0);
        assert!(claimed.message.map_err(anyhow::Error::msg)?.payload == payload, "{}: another payload", side.queue);
        side.ack(claimed.lease).await?;
    }
    Ok(())
}

async fn an_empty_payload_is_a_payload(h: &Harness) -> Verdict {
    roundtrip(h, "").await
}

async fn a_payload_is_not_looked_into(h: &Harness) -> Verdict {
    for payload in ["not json", "{\"half\":", "<xml/>", "null", " leading and trailing ", "'; DROP TABLE x; --"] {
        roundtrip(h, payload).await?;
    }
    Ok(())
}

async fn a_payload_of_eight_mebibytes_comes_back_whole(h: &Harness) -> Verdict {
    roundtrip(h, &"0123456789abcdef".repeat(8 << 16)).await
}

async fn every_character_comes_back(h: &Harness) -> Verdict {
    let all: String = (1..=0x0010_FFFF_u32).step_by(97).filter_map(char::from_u32).collect();
    roundtrip(h, &all).await?;
    roundtrip(h, "😀 \u{10FFFF} \u{1} \r\n \u{FEFF} e\u{301} é").await
}

async fn times_are_kept_to_the_microsecond(h: &Harness) -> Verdict {
    h.clock.advance(Duration::from_micros(123_457));
    let due = Timestamp::from_micros(1_771_070_400_987_653);
    for side in h.sides() {
        let seq = side.put(&Draft::new("a").due_at(due)).await?;
        let record = side.record(seq).await?;
        let message = readable(&record)?;
        assert_eq!((message.created_at, message.due_at), (h.now(), Some(due)));
        assert_eq!(record.visible_at(), Some(due));
    }
    Ok(())
}

async fn an_empty_correlation_id_is_none(h: &Harness) -> Verdict {
    let message = NewMessage::new("a", "").correlation_id("");
    let id = message.message_id();
    h.outbox.enqueue(message).await?;
    let record = h.outbox.find(id.as_uuid()).await?.remove(0);
    assert_eq!(readable(&record)?.correlation_id, None);
    let draft = Draft::new("a");
    h.inbox.enqueue(draft.incoming()?.correlation_id("")).await?;
    let record = h.inbox.get(&draft.key()?).await?;
    let record = record.ok_or_else(|| anyhow::anyhow!("it is not there"))?;
    assert_eq!(readable(&record)?.correlation_id, None);
    Ok(())
}

async fn what_travels_beside_the_payload_comes_back(h: &Harness) -> Verdict {
    let message = NewMessage::new("a", "x").kind(Kind::Command).to("billing").correlation_id("order-7");
    let message = message.header("traceparent", "00-ab").header("größe", "😀\"\\").max_attempts(3);
    h.outbox.enqueue(message.expires_at(h.now().plus(Duration::from_secs(9)))).await?;
    let claimed = h.side(postroom::queue::Queue::Outbox).claim(1).await?.remove(0);
    let message = claimed.message.map_err(anyhow::Error::msg)?;
    assert_eq!((message.kind, message.destination()), (Kind::Command, Some("billing")));
    assert_eq!((message.correlation_id.as_deref(), message.max_attempts), (Some("order-7"), Some(3)));
    assert_eq!(message.headers.get("größe").map(String::as_str), Some("😀\"\\"));
    assert_eq!(message.headers.len(), 2);
    assert_eq!(message.expires_at, Some(h.now().plus(Duration::from_secs(9))));
    let incoming = Draft::new("a").incoming()?.kind(Kind::Response).header("h", "v").correlation_id("c");
    h.inbox.enqueue(incoming.hash(ContentHash::new("odd", [0, 255, 58])?)).await?;
    let claimed = h.side(postroom::queue::Queue::Inbox).claim(1).await?.remove(0);
    let message = claimed.message.map_err(anyhow::Error::msg)?;
    assert_eq!((message.kind, message.source()), (Kind::Response, Some("shop")));
    assert_eq!((message.headers.len(), message.correlation_id.as_deref()), (1, Some("c")));
    assert!(matches!(&message.origin, Origin::Inbox { hash: Some(hash), .. } if hash.to_string() == "odd:00ff3a"));
    Ok(())
}

async fn names_are_compared_byte_by_byte(h: &Harness) -> Verdict {
    for (source, id) in [("shop", "é"), ("Shop", "é"), ("shop", "e\u{301}"), ("shop", "É"), (" shop", "é")] {
        let arrival = h.inbox.enqueue(Incoming::new(InboxKey::new(source, id)?, "Order.Placed", "")).await?;
        assert!(!arrival.is_duplicate(), "{source}/{id} was taken for another");
    }
    for topic in ["Order.Placed", "order.placed"] {
        let listed = h.inbox.queue().list(postroom::operator::Filter::all().topic(topic)).await?;
        assert_eq!(listed.len(), if topic == "Order.Placed" { 5 } else { 0 });
    }
    for topic in ["Order.Placed", "order.placed"] {
        h.outbox.enqueue(NewMessage::new(topic, "")).await?;
    }
    assert_eq!(h.outbox.queue().list(postroom::operator::Filter::all().topic("order.placed")).await?.len(), 1);
    Ok(())
}

async fn hashes_are_sha_256(h: &Harness) -> Verdict {
    let hex: String = hash_bytes("abc").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(hash_value("abc")?, hash_bytes("\"abc\""));
    let draft = Draft::new("a");
    h.inbox.enqueue(draft.incoming()?.hash(hash_bytes("abc"))).await?;
    let claimed = h.side(postroom::queue::Queue::Inbox).claim(1).await?.remove(0);
    let message = claimed.message.map_err(anyhow::Error::msg)?;
    assert!(matches!(&message.origin, Origin::Inbox { hash: Some(hash), .. } if *hash == hash_bytes("abc").into()));
    Ok(())
}

async fn payloads_are_not_printed(h: &Harness) -> Verdict {
    let canary = "tweety-8d1f";
    let draft = Draft::new("a").payload(canary);
    let printed = format!("{:?} {:?}", draft.outgoing().header("h", canary), draft.incoming()?.header("h", canary));
    assert!(!printed.contains(canary), "{printed}");
    for side in h.sides() {
        side.put(&draft).await?;
        let printed = format!("{:?}", side.claim(1).await?);
        assert!(!printed.contains(canary), "{printed}");
        let printed = format!("{:?}", side.verbs().list(postroom::operator::Filter::all()).await?);
        assert!(!printed.contains(canary), "{printed}");
    }
    if let Ok(statement) = h.outbox.statement(&draft.outgoing()) {
        assert!(!format!("{statement:?}").contains(canary));
    }
    Ok(())
}
