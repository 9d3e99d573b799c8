//! Peers that do not speak our own wire, over real HTTP: CloudEvents, and webhooks as others sign them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use postroom::NewMessage;
use postroom::queue::{Queue, State};
use postroom::services::{Hook, Key, Peer, Receiver, ReceiverOptions, Secret, Service, Source};
use postroom::sqlite::Sqlite;
use postroom::webhooks::{CloudEventsMode, WebhookScheme, WebhookSecret, WebhookSigner};

use crate::case::{Verdict, cases};
use crate::harness::{Stage, eventually};
use crate::lines::Office;
use crate::pair;
use crate::peer::{self, Said, hmac};
use crate::script::Script;
use crate::services::TOPIC;
use crate::web::{WebServer, post};

cases! { neighbours:
    sqlite cloud_events_go_out_and_come_in_by_binary_mode [];
    sqlite cloud_events_go_out_and_come_in_by_structured_mode [];
    sqlite cloud_events_that_are_signed_with_another_secret_are_refused [];
    sqlite an_event_cannot_claim_the_name_of_a_source_or_of_another_hook [];
    sqlite webhooks_go_out_as_standard_webhooks_says [];
    sqlite webhooks_come_in_as_standard_webhooks_says [];
    sqlite webhooks_come_in_as_stripe_signs_them [];
    sqlite webhooks_come_in_as_github_signs_them [];
    sqlite headers_that_nobody_signed_make_no_other_message_of_a_webhook [];
    sqlite a_hook_sends_only_topics_that_it_may [];
    sqlite any_web_servers_word_is_taken [];
}

const TOKEN: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn secret() -> anyhow::Result<WebhookSecret> {
    Ok(WebhookSecret::parse(TOKEN)?)
}

/// `inventory` with these hooks, and a source named `orders`.
async fn hooked(stage: &Stage<Sqlite>, script: &Script, hooks: Vec<Hook>) -> anyhow::Result<Office> {
    let options = hooks.into_iter().fold(ReceiverOptions::default(), ReceiverOptions::hook);
    let source = Source::new("orders", peer::key()?);
    let handlers = script.handlers::<Sqlite>();
    let mut office = Office::at("http://127.0.0.1:0".into(), &stage.place).await?;
    office.open(Receiver::with("inventory", stage.store.clone(), handlers, [source], options)?).await?;
    Ok(office)
}

fn at_hook(office: &Office, name: &str) -> String {
    format!("{}/_rf/hooks/{name}", office.address())
}

/// Sends one message of `shop` to this service until it is settled.
async fn send(
    stage: &Stage<Sqlite>,
    service: Service,
    message: NewMessage,
) -> anyhow::Result<postroom::operator::Record> {
    let services = pair::services(stage, "shop", service);
    let worker = pair::sender(stage, postroom::services::Courier::new(services)?);
    let id = stage.outbox.enqueue(message.to("inventory")).await?.id();
    eventually("it is settled", || async move {
        stage.skip_pause(Queue::Outbox).await?;
        let row = stage.outbox.find(id.as_uuid()).await?.pop();
        Ok(row.is_some_and(|row| {
            // What is the other side's fault spends nothing, and is not settled.
            let waits = row.state() == State::Ready && row.attempts() == 0 && row.last_error().is_some();
            waits || matches!(row.state(), State::Done | State::Dead)
        }))
    })
    .await?;
    worker.stop().await?;
    Ok(stage.outbox.find(id.as_uuid()).await?.remove(0))
}

async fn events_go_round(stage: &Stage<Sqlite>, mode: CloudEventsMode) -> Verdict {
    let script = Script::succeed();
    let signed = Hook::new("signed", WebhookScheme::standard_webhooks([secret()?])?).cloud_events();
    let mut office = hooked(stage, &script, vec![Hook::unsigned_cloud_events("open"), signed]).await?;
    let mut ways = vec![("open", None)];
    // In binary mode nobody signs what an event is known by.
    if mode == CloudEventsMode::Structured {
        ways.push(("signed", Some(WebhookSigner::new([secret()?])?)));
    }
    let messages = 4 * ways.len();
    for (name, signer) in ways {
        let service = Service::new("inventory", at_hook(&office, name)).peer(Peer::CloudEvents(mode));
        let service = signer.into_iter().fold(service, Service::signer);
        for payload in [r#"{"order":7,"note":"ü☃"}"#, "plain text", "\"text\"", ""] {
            let message = NewMessage::new(TOPIC, payload).header("ce-subject", "order 7").header("private", "x");
            let id = message.message_id().to_string();
            let sent = send(stage, service.clone(), message).await?;
            assert_eq!(sent.state(), State::Done, "{name} {payload}: {:?}", sent.last_error());
            let got = script.calls().pop().expect("it is handled");
            assert_eq!((got.id(), got.source(), got.topic.as_str()), (id, Some("shop"), TOPIC));
            assert_eq!(got.payload, payload);
            let header = |name: &str| got.headers.get(name).map(String::as_str);
            assert_eq!((header("ce-subject"), header("private")), (Some("order 7"), None));
        }
    }
    assert_eq!(script.count(), messages);
    office.close().await
}

async fn cloud_events_go_out_and_come_in_by_binary_mode(stage: &Stage<Sqlite>) -> Verdict {
    events_go_round(stage, CloudEventsMode::Binary).await
}

async fn cloud_events_go_out_and_come_in_by_structured_mode(stage: &Stage<Sqlite>) -> Verdict {
    events_go_round(stage, CloudEventsMode::Structured).await
}

async fn cloud_events_that_are_signed_with_another_secret_are_refused(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let hook = Hook::new("signed", WebhookScheme::standard_webhooks([secret()?])?).cloud_events();
    let mut office = hooked(stage, &script, vec![hook]).await?;
    let other = WebhookSigner::new([WebhookSecret::parse(&WebhookSecret::generate())?])?;
    for signer in [None, Some(other)] {
        let service = Service::new("inventory", at_hook(&office, "signed"));
        let service = service.peer(Peer::CloudEvents(CloudEventsMode::Structured));
        let service = signer.into_iter().fold(service, Service::signer);
        let sent = send(stage, service, NewMessage::new(TOPIC, "{}").max_attempts(1)).await?;
        assert!(sent.last_error().is_some_and(|error| error.contains("401")), "{:?}", sent.last_error());
    }
    assert_eq!((script.count(), stage.side(Queue::Inbox).rows().await?), (0, 0));
    office.close().await
}

const EVENT: [(&str, &str); 4] =
    [("ce-specversion", "1.0"), ("ce-id", "7"), ("ce-type", TOPIC), ("content-type", "application/json")];

/// Who could would answer for it, or keep its messages out.
async fn an_event_cannot_claim_the_name_of_a_source_or_of_another_hook(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let hooks = vec![Hook::unsigned_cloud_events("open"), Hook::new("stripe", WebhookScheme::stripe([secret()?])?)];
    let mut office = hooked(stage, &script, hooks).await?;
    for (source, status) in [("orders", 401), ("stripe", 401), ("/sensors/7", 200)] {
        let headers = [&EVENT[..], &[("ce-source", source)]].concat();
        assert_eq!(post(&at_hook(&office, "open"), &headers, "{}").await?.status, status, "{source}");
    }
    assert_eq!(script.count(), 1);
    let hook = Hook::unsigned_cloud_events("orders");
    let twice = hooked(stage, &script, vec![hook]).await;
    assert!(twice.is_err(), "a hook has the name of a source");
    office.close().await
}

async fn webhooks_go_out_as_standard_webhooks_says(stage: &Stage<Sqlite>) -> Verdict {
    let web = WebServer::start().await?;
    let (old, new) = (WebhookSecret::generate(), TOKEN.to_owned());
    let secrets = [WebhookSecret::parse(&old)?, WebhookSecret::parse(&new)?];
    let service = Service::new("inventory", web.page(204)).peer(Peer::Webhook).signer(WebhookSigner::new(secrets)?);
    let message = NewMessage::new(TOPIC, r#"{"type":"a",  "order":7}"#).header("tenant", "acme").header("host", "evil");
    let id = message.message_id().to_string();
    assert_eq!(send(stage, service, message).await?.state(), State::Done);
    let [sent] = &web.sent()[..] else { anyhow::bail!("not sent once") };
    assert_eq!((&sent.body[..], sent.path.as_str()), (&br#"{"type":"a",  "order":7}"#[..], "/204"));
    assert_eq!((sent.header("content-type"), sent.header("tenant")), ("application/json", "acme"));
    assert_ne!(sent.header("host"), "evil", "headers that steer HTTP stay behind");
    assert_eq!((sent.header("webhook-id"), sent.header("rf-endpoint")), (id.as_str(), TOPIC));
    let time = sent.header("webhook-timestamp");
    assert_eq!(time, (stage.now().as_micros() / 1_000_000).to_string());
    let text = [format!("{id}.{time}.").as_bytes(), &sent.body].concat();
    let signed = [&old, &new].map(|secret| {
        let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap_or_default();
        format!("v1,{}", STANDARD.encode(hmac(&key, &text).unwrap_or_default()))
    });
    assert_eq!(sent.header("webhook-signature"), signed.join(" "));
    Ok(())
}

const BODY: &str = r#"{"id":"evt_7", "type":"stock.reserve","order" : 7}"#;

/// What a provider puts into its headers.
type Headers = Vec<(&'static str, String)>;
/// And how it makes them, at a time.
type Signed = fn(u64) -> anyhow::Result<Headers>;

/// Sends a webhook twice, once more with another body, and once more too late.
async fn webhook(stage: &Stage<Sqlite>, hook: Hook, id: &str, headers: Signed, is_dated: bool) -> Verdict {
    let script = Script::new(|_| async { Ok(Some("7".into())) });
    let mut office = hooked(stage, &script, vec![hook]).await?;
    let url = at_hook(&office, "theirs");
    let now = u64::try_from(stage.now().as_micros() / 1_000_000)?;
    let ask = |signed_at: u64, body: &'static str| {
        let url = url.clone();
        async move {
            let headers = headers(signed_at)?;
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            anyhow::Ok::<Said>(post(&url, &headers, body).await?)
        }
    };
    let (first, second) = (ask(now, BODY).await?, ask(now, BODY).await?);
    assert_eq!((first.status, first.payload(), first.is_duplicate()), (200, 7.into(), false), "{first:?}");
    assert_eq!((second.status, second.payload(), second.is_duplicate()), (200, 7.into(), true));
    let got = script.calls().remove(0);
    assert_eq!((got.id().as_str(), got.source(), got.topic.as_str()), (id, Some("theirs"), TOPIC));
    assert_eq!((got.payload.as_str(), script.count()), (BODY, 1));
    let changed = ask(now, r#"{"id":"evt_8", "type":"stock.reserve","order" : 7}"#).await?;
    assert_eq!((changed.status, changed.error().as_str()), (401, "the request could not be verified"));
    if is_dated {
        assert_eq!(ask(now - 301, BODY).await?.body, changed.body, "the same answer for every reason");
    }
    assert_eq!(post(&at_hook(&office, "unknown"), &[], BODY).await?.status, 401);
    assert_eq!((script.count(), stage.side(Queue::Inbox).rows().await?), (1, 1));
    office.close().await
}

fn hex_hmac(text: &str) -> anyhow::Result<String> {
    Ok(hmac(TOKEN.as_bytes(), text.as_bytes())?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What Standard Webhooks puts into its headers.
fn standard(time: u64) -> anyhow::Result<Headers> {
    let key = STANDARD.decode(TOKEN.trim_start_matches("whsec_"))?;
    let signature = STANDARD.encode(hmac(&key, format!("msg_7.{time}.{BODY}").as_bytes())?);
    let headers = [("webhook-id", "msg_7".into()), ("webhook-timestamp", time.to_string())];
    Ok([&headers[..], &[("webhook-signature", format!("v1,{signature}"))]].concat())
}

async fn webhooks_come_in_as_standard_webhooks_says(stage: &Stage<Sqlite>) -> Verdict {
    let hook = Hook::new("theirs", WebhookScheme::standard_webhooks([secret()?])?);
    webhook(stage, hook, "msg_7", standard, true).await
}

fn stripe(time: u64) -> anyhow::Result<Headers> {
    let signature = hex_hmac(&format!("{time}.{BODY}"))?;
    Ok(vec![("stripe-signature", format!("t={time},v1={signature}"))])
}

async fn webhooks_come_in_as_stripe_signs_them(stage: &Stage<Sqlite>) -> Verdict {
    let hook = Hook::new("theirs", WebhookScheme::stripe([secret()?])?);
    webhook(stage, hook, "evt_7", stripe, true).await
}

fn github(_: u64) -> anyhow::Result<Headers> {
    let signature = format!("sha256={}", hex_hmac(BODY)?);
    let named = [("x-github-delivery", "72d3162e".to_owned()), ("x-github-event", TOPIC.to_owned())];
    Ok([&named[..], &[("x-hub-signature-256", signature)]].concat())
}

async fn webhooks_come_in_as_github_signs_them(stage: &Stage<Sqlite>) -> Verdict {
    let hook = Hook::new("theirs", WebhookScheme::github([secret()?])?);
    webhook(stage, hook, "72d3162e", github, false).await
}

/// One delivery that somebody captured, sent again as other events.
async fn headers_that_nobody_signed_make_no_other_message_of_a_webhook(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    let hooks = vec![
        Hook::new("standard", WebhookScheme::standard_webhooks([secret()?])?),
        Hook::new("events", WebhookScheme::standard_webhooks([secret()?])?).cloud_events(),
        Hook::new("stripe", WebhookScheme::stripe([secret()?])?),
        Hook::new("github", WebhookScheme::github([secret()?])?),
    ];
    let mut office = hooked(stage, &script, hooks).await?;
    let now = u64::try_from(stage.now().as_micros() / 1_000_000)?;
    let ways: [(&str, Signed); 4] =
        [("standard", standard), ("events", standard), ("stripe", stripe), ("github", github)];
    for (name, headers) in ways {
        for id in ["1", "2", "3"] {
            let mut headers = headers(now)?;
            let event = [("ce-specversion", "1.0"), ("ce-id", id), ("ce-source", "/partner"), ("ce-type", "refund")];
            headers.extend(event.map(|(name, value)| (name, value.to_owned())));
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(post(&at_hook(&office, name), &headers, BODY).await?.status, 200, "{name}");
        }
        let got = script.calls().pop().expect("it is handled");
        assert_eq!((got.source(), got.topic.as_str()), (Some(name), TOPIC));
    }
    assert_eq!((script.count(), stage.side(Queue::Inbox).rows().await?), (4, 4));
    for scheme in [WebhookScheme::stripe([secret()?])?, WebhookScheme::github([secret()?])?] {
        let refused = hooked(stage, &script, vec![Hook::new("theirs", scheme).cloud_events()]).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("does not support CloudEvents")));
    }
    office.close().await
}

async fn a_hook_sends_only_topics_that_it_may(stage: &Stage<Sqlite>) -> Verdict {
    let script = Script::succeed();
    for (topics, status) in [(["order.*", "push"], 403), (["push", "stock.*"], 200)] {
        let hook = Hook::new("theirs", WebhookScheme::github([secret()?])?).topics(topics);
        let mut office = hooked(stage, &script, vec![hook]).await?;
        let headers = github(0)?;
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let said = post(&at_hook(&office, "theirs"), &headers, BODY).await?;
        assert_eq!((said.status, script.count()), (status, usize::from(status == 200)));
        office.close().await?;
    }
    let counted = stage.setup.meters.sum("rf_inbox_distrusted_count{reason=\"topic\"}");
    assert!((counted - 1.0).abs() < f64::EPSILON, "{counted}");
    Ok(())
}

async fn any_web_servers_word_is_taken(stage: &Stage<Sqlite>) -> Verdict {
    let web = WebServer::start().await?;
    for (status, state, requests) in [
        (200, State::Done, 1),
        (202, State::Done, 1),
        (410, State::Dead, 1),
        (422, State::Dead, 1),
        (500, State::Dead, 2),
    ] {
        let before = web.sent().len();
        let service = Service::new("inventory", web.page(status)).peer(Peer::Webhook);
        let service = service.breaker(100, Duration::ZERO, Duration::ZERO);
        let sent = send(stage, service, NewMessage::new(TOPIC, "plain").max_attempts(2)).await?;
        assert_eq!((sent.state(), web.sent().len() - before), (state, requests), "{status}");
    }
    // Of a Postroom service the same 200 counts for nothing.
    let key = Key::new("first", Secret::parse(&Secret::generate())?)?;
    let service = Service::new("inventory", web.page(200)).keys(key);
    let sent = send(stage, service, NewMessage::new(TOPIC, "plain").max_attempts(2)).await?;
    assert_eq!((sent.state(), sent.attempts()), (State::Ready, 0));
    Ok(())
}
