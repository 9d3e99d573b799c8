use super::*;
use crate::foreign::WebhookScheme;
use crate::foreign::tests::{headers, secret};

// This vector is from the reference library.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const EXAMPLE_ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const EXAMPLE_AT: Timestamp = Timestamp::from_micros(1_614_265_330_000_000);
const EXAMPLE_BODY: &[u8] = br#"{"test": 2432232314}"#;
const EXAMPLE_SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn example(signature: &str) -> HeaderMap {
    headers([("webhook-id", EXAMPLE_ID), ("webhook-timestamp", "1614265330"), ("webhook-signature", signature)])
}

fn is_taken(headers: &HeaderMap) -> bool {
    let scheme = WebhookScheme::standard_webhooks([secret(SECRET)]).unwrap();
    scheme.verify(headers, EXAMPLE_BODY, EXAMPLE_AT).is_ok()
}

#[test]
fn the_published_example_is_signed_and_taken() {
    let signed = WebhookSigner::new([secret(SECRET)]).unwrap().sign(EXAMPLE_ID, EXAMPLE_AT, EXAMPLE_BODY).unwrap();
    assert_eq!(signed.into_iter().collect::<HeaderMap>(), example(EXAMPLE_SIGNATURE));
    assert!(is_taken(&example(EXAMPLE_SIGNATURE)));
}

#[test]
fn other_signatures_in_the_list_do_no_harm() {
    let wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";
    let foreign = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";
    assert!(is_taken(&example(&format!("{wrong} {foreign} v1,  v2 {EXAMPLE_SIGNATURE} {wrong}"))));
    assert!(!is_taken(&example(&format!("{wrong} {foreign}"))));
    // The same bytes under another version are not one of our signatures.
    assert!(!is_taken(&example(&EXAMPLE_SIGNATURE.replace("v1", "v2"))));
    assert!(!is_taken(&example(&EXAMPLE_SIGNATURE.replace("v1", "v1a"))));
    assert!(!is_taken(&example("v1,")));
    assert!(!is_taken(&example(&EXAMPLE_SIGNATURE[..8])));
}

#[test]
fn each_header_must_be_there_once() {
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut headers = example(EXAMPLE_SIGNATURE);
        headers.append(name, headers[name].clone());
        assert!(!is_taken(&headers), "{name} twice");
        headers.remove(name);
        assert!(!is_taken(&headers), "no {name}");
    }
}

#[test]
fn one_time_has_one_form() {
    for time in ["", "hello", "+1614265330", "01614265330", "1614265330.0", "-1", "99999999999999999999", "1e9"] {
        let mut headers = example(EXAMPLE_SIGNATURE);
        headers.insert("webhook-timestamp", time.parse().unwrap());
        assert!(!is_taken(&headers), "{time}");
    }
}

// Id `a`, time 1 and body `2.x` would have the same signature as id `a.1`, time 2 and body `x`.
#[test]
fn an_id_with_a_full_stop_is_neither_signed_nor_taken() {
    let signer = WebhookSigner::new([secret(SECRET)]).unwrap();
    for id in ["", "a.1", "a b", "ä", "a\n"] {
        assert!(signer.sign(id, EXAMPLE_AT, b"{}").is_err(), "{id:?}");
    }
    let [_, time, signature] = signer.sign("a", EXAMPLE_AT, b"1614265330.x").unwrap();
    let mut shifted: HeaderMap = [time, signature].into_iter().collect();
    shifted.insert("webhook-id", "a.1614265330".parse().unwrap());
    let scheme = WebhookScheme::standard_webhooks([secret(SECRET)]).unwrap();
    assert!(scheme.verify(&shifted, b"x", EXAMPLE_AT).is_err());
}

#[test]
fn every_secret_signs_and_any_of_them_is_enough() {
    let [old, new, other] = [(); 3].map(|()| secret(&WebhookSecret::generate()));
    let signed = WebhookSigner::new([new.clone(), old.clone()]).unwrap().sign("a", EXAMPLE_AT, b"{}").unwrap();
    let signed: HeaderMap = signed.into_iter().collect();
    assert_eq!(signed["webhook-signature"].to_str().unwrap().split(' ').count(), 2);
    for (known, fine) in [(old, true), (new, true), (other, false)] {
        let scheme = WebhookScheme::standard_webhooks([known]).unwrap();
        assert_eq!(scheme.verify(&signed, b"{}", EXAMPLE_AT).is_ok(), fine);
    }
}

#[test]
fn a_short_secret_is_taken_but_does_not_sign() {
    let short = secret("whsec_c2hvcnQ=");
    assert!(WebhookScheme::standard_webhooks([short.clone()]).is_ok());
    assert!(WebhookSigner::new([secret(SECRET), short]).is_err());
}

#[test]
fn the_id_is_the_header_and_the_topic_the_type() {
    let (id, topic, payload) = read(&example(""), br#"{"type":"contact.created", "data":{}}"#).unwrap();
    assert_eq!((id.as_str(), topic.as_str()), (EXAMPLE_ID, "contact.created"));
    assert_eq!(payload, r#"{"type":"contact.created", "data":{}}"#);
    let error = read(&example(""), EXAMPLE_BODY).unwrap_err().to_string();
    assert!(error.contains("\"type\""), "{error}");
}
