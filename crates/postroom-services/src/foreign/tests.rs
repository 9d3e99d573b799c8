//! Tests for every scheme: only what was signed is accepted, and nobody learns why a request was refused.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use super::*;
use crate::foreign::secret::Keys;
use postroom_core::support::clock::Timestamp;

pub(super) fn secret(text: &str) -> WebhookSecret {
    WebhookSecret::parse(text).unwrap()
}

pub(super) fn headers<const N: usize>(pairs: [(&str, &str); N]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    headers
}

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const BODY: &[u8] = br#"{"id":"evt_1","type":"order.paid","data":{"amount":"100"}}"#;
const SECRETS: [&str; 3] = [
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
    "whsec_plJ3nmyCDGBKInavdOK15jsl",
];

/// A scheme, and a function that signs a body at a given time as its provider does.
struct Provider {
    scheme: fn(Vec<WebhookSecret>) -> Result<WebhookScheme>,
    sign: fn(&str, Timestamp, &[u8]) -> HeaderMap,
    is_timed: bool,
}

const PROVIDERS: [Provider; 3] = [
    Provider { scheme: |all| WebhookScheme::standard_webhooks(all), sign: sign_standard, is_timed: true },
    Provider { scheme: |all| WebhookScheme::stripe(all), sign: sign_stripe, is_timed: true },
    Provider { scheme: |all| WebhookScheme::github(all), sign: sign_github, is_timed: false },
];

fn sign_standard(text: &str, at: Timestamp, body: &[u8]) -> HeaderMap {
    WebhookSigner::new([secret(text)]).unwrap().sign("msg_1", at, body).unwrap().into_iter().collect()
}

fn sign_stripe(text: &str, at: Timestamp, body: &[u8]) -> HeaderMap {
    let time = (at.as_micros() / 1_000_000).to_string();
    let digits = hex_of(text, &[time.as_bytes(), b".", body]);
    headers([("Stripe-Signature", &format!("t={time},v1={digits}"))])
}

fn sign_github(text: &str, _: Timestamp, body: &[u8]) -> HeaderMap {
    let digits = hex_of(text, &[body]);
    let mut headers = headers([("X-GitHub-Delivery", "evt_1"), ("X-GitHub-Event", "order.paid")]);
    headers.insert("X-Hub-Signature-256", format!("sha256={digits}").parse().unwrap());
    headers
}

fn hex_of(text: &str, parts: &[&[u8]]) -> String {
    let signatures = Keys::literal([secret(text)]).unwrap().sign(parts);
    signatures[0].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Provider {
    fn knows(&self, texts: &[&str]) -> WebhookScheme {
        (self.scheme)(texts.iter().map(|text| secret(text)).collect()).unwrap()
    }

    /// Returns why a request that was signed with the first secret at that time is refused now.
    fn refusal(&self, known: &[&str], at: Timestamp) -> Option<RefusalReason> {
        let headers = (self.sign)(SECRETS[0], at, BODY);
        self.knows(known).verify(&headers, BODY, NOW).err().map(Refused::reason)
    }
}

#[test]
fn what_is_signed_is_taken_and_read() {
    for provider in PROVIDERS {
        let (scheme, headers) = (provider.knows(&SECRETS[..1]), (provider.sign)(SECRETS[0], NOW, BODY));
        let verified = scheme.verify(&headers, BODY, NOW).unwrap();
        let message = verified.message().unwrap();
        assert!(["evt_1", "msg_1"].contains(&message.id.as_str()), "{}", scheme.name());
        assert_eq!((message.topic.as_str(), message.payload.as_bytes()), ("order.paid", BODY));
        assert_eq!(message.enqueued_at, provider.is_timed.then_some(NOW));
    }
}

#[test]
fn every_flipped_bit_of_the_body_is_noticed() {
    for provider in PROVIDERS {
        let (scheme, headers) = (provider.knows(&SECRETS), (provider.sign)(SECRETS[0], NOW, BODY));
        for bit in 0..BODY.len() * 8 {
            let mut body = BODY.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            let reason = scheme.verify(&headers, &body, NOW).unwrap_err().reason();
            assert_eq!(reason, RefusalReason::WrongSignature, "{} bit {bit}", scheme.name());
        }
        for body in [&b""[..], &BODY[1..], &BODY[..BODY.len() - 1], &[BODY, b"\n"].concat()] {
            assert!(scheme.verify(&headers, body, NOW).is_err(), "{}", scheme.name());
        }
    }
}

#[test]
fn every_flipped_bit_of_the_signed_headers_is_noticed() {
    let mut flipped = 0;
    for provider in PROVIDERS {
        let (scheme, good) = (provider.knows(&SECRETS), (provider.sign)(SECRETS[0], NOW, BODY));
        for (name, value) in good.iter().filter(|(name, _)| !name.as_str().starts_with("x-github")) {
            for bit in 0..value.len() * 8 {
                let mut bytes = value.as_bytes().to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                // Some of them are no longer valid header values; HTTP refuses those before we see them.
                let Ok(value) = HeaderValue::from_bytes(&bytes) else { continue };
                let mut headers = good.clone();
                headers.insert(name, value);
                assert!(scheme.verify(&headers, BODY, NOW).is_err(), "{} {name} bit {bit}", scheme.name());
                flipped += 1;
            }
        }
    }
    assert!(flipped > 1000, "{flipped}");
}

#[test]
fn five_minutes_are_the_limit_in_both_directions() {
    let (limit, second) = (Duration::from_secs(300), Duration::from_secs(1));
    for provider in PROVIDERS {
        let refusal = |at| provider.refusal(&SECRETS, at);
        assert_eq!((refusal(NOW.minus(limit)), refusal(NOW.plus(limit))), (None, None));
        let expected = [RefusalReason::TooOld, RefusalReason::TooNew].map(|reason| provider.is_timed.then_some(reason));
        assert_eq!([refusal(NOW.minus(limit + second)), refusal(NOW.plus(limit + second))], expected);
        assert_eq!([refusal(Timestamp::from_micros(0)), refusal(Timestamp::from_micros(i64::MAX))], expected);
    }
}

#[test]
fn any_of_the_secrets_that_count_is_enough_and_no_other() {
    for provider in PROVIDERS {
        assert_eq!(provider.refusal(&[SECRETS[1], SECRETS[0]], NOW), None);
        assert_eq!(provider.refusal(&[SECRETS[0], SECRETS[1]], NOW), None);
        assert_eq!(provider.refusal(&[SECRETS[1], SECRETS[2]], NOW), Some(RefusalReason::WrongSignature));
        // A wrong signature is never reported as too old, because anybody can claim an old time.
        let reason = provider.refusal(&SECRETS[1..], Timestamp::from_micros(0));
        assert_eq!(reason, Some(RefusalReason::WrongSignature));
        assert!((provider.scheme)(Vec::new()).is_err());
    }
}

#[test]
fn all_refusals_look_the_same() {
    use RefusalReason::*;
    for reason in [MissingHeader, MalformedHeader, WrongSignature, TooOld, TooNew] {
        let refused = Refused::from(reason);
        assert_eq!(format!("{refused} {refused:?}"), "the signature is not valid Refused");
        assert_eq!(refused.reason().as_str().replace('_', ""), format!("{reason:?}").to_lowercase());
    }
}

#[test]
fn nothing_that_is_printed_shows_a_secret_or_a_payload() {
    for provider in PROVIDERS {
        let (scheme, headers) = (provider.knows(&SECRETS), (provider.sign)(SECRETS[0], NOW, BODY));
        let verified = scheme.verify(&headers, BODY, NOW).unwrap();
        let printed = format!("{scheme:?} {verified:?} {:?}", verified.message());
        assert!(!printed.contains("amount") && !printed.contains("whsec"), "{printed}");
    }
    let signer = WebhookSigner::new([secret(SECRETS[0]), secret(SECRETS[1])]).unwrap();
    assert_eq!(format!("{signer:?}"), "WebhookSigner { keys: Keys(2 …) }");
}

#[test]
fn a_body_that_is_no_text_is_refused_only_after_its_signature() {
    for provider in PROVIDERS {
        let (scheme, body) = (provider.knows(&SECRETS), b"{\"id\":\"\xff\"}");
        let headers = (provider.sign)(SECRETS[0], NOW, body);
        let error = scheme.verify(&headers, body, NOW).unwrap().message().unwrap_err().to_string();
        assert_eq!(error, "the body is not UTF-8 from byte 7 on; only text is accepted");
    }
}

#[test]
fn garbage_is_refused_and_nothing_panics() {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature", "stripe-signature", "x-hub-signature-256"];
    let pieces: [&[u8]; 16] = [
        b"v1",
        b"v1,",
        b"v1=",
        b"t=",
        b"sha256=",
        b",",
        b"=",
        b" ",
        b".",
        b"1700000000",
        b"g0hM",
        b"757107",
        b"\xff",
        b"\t",
        b"-",
        b"9223372036854775807",
    ];
    let mut random = fastrand::Rng::with_seed(0x70_05);
    for _ in 0..20_000 {
        let mut headers = HeaderMap::new();
        for name in names {
            for _ in 0..random.usize(..3) {
                let pieces = (0..random.usize(..8)).map(|_| random.choice(pieces).unwrap());
                let value: Vec<u8> = pieces.collect::<Vec<_>>().concat();
                headers.append(name, HeaderValue::from_bytes(&value).unwrap());
            }
        }
        let body: Vec<u8> = (0..random.usize(..20)).map(|_| random.u8(..)).collect();
        for provider in PROVIDERS {
            assert!(provider.knows(&SECRETS).verify(&headers, &body, NOW).is_err(), "{headers:?}");
        }
    }
}

#[test]
fn a_signed_cloud_event_is_both() {
    let body = br#"{"specversion":"1.0","id":"7","source":"/shop","type":"order.paid","data":{"amount":"100"}}"#;
    let mut headers = sign_standard(SECRETS[0], NOW, body);
    headers.insert("content-type", "application/cloudevents+json".parse().unwrap());
    let verified = PROVIDERS[0].knows(&SECRETS).verify(&headers, body, NOW).unwrap();
    let (message, event) = (verified.message().unwrap(), CloudEvent::read(&headers, body).unwrap());
    assert_eq!((message.topic, message.id.as_str()), (event.topic, "msg_1"));
    assert_eq!((event.id.as_str(), event.payload.as_str()), ("7", r#"{"amount":"100"}"#));
}

/// Computes the same HMAC with Python, in hexadecimal. It returns `None` where Python is missing.
fn python_hmac(key: &[u8], text: &[u8]) -> Option<String> {
    let program = "import base64,hashlib,hmac,sys\n\
                   key,text=(base64.b64decode(line) for line in sys.stdin)\n\
                   print(hmac.new(key,text,hashlib.sha256).hexdigest())";
    let python = Command::new("python3").args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut python = match python {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no python3 to compare signatures with");
            return None;
        }
        python => python.unwrap(),
    };
    let mut input = python.stdin.take().unwrap();
    writeln!(input, "{}\n{}", STANDARD.encode(key), STANDARD.encode(text)).unwrap();
    drop(input);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn python_makes_the_same_signatures() {
    let mut random = fastrand::Rng::with_seed(0x70_06);
    for length in [0, 1, 55, 64, 1000] {
        let body: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let key: Vec<u8> = (0..random.usize(24..=64)).map(|_| random.u8(..)).collect();
        let Some(expected) = python_hmac(&key, &[b"msg_1.1700000000.", &body[..]].concat()) else { return };
        let ours = sign_standard(&format!("whsec_{}", STANDARD.encode(&key)), NOW, &body);
        let ours = ours["webhook-signature"].to_str().unwrap().strip_prefix("v1,").unwrap();
        let ours: String = STANDARD.decode(ours).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ours, expected);

        let secret = STANDARD.encode(&key);
        let Some(expected) = python_hmac(secret.as_bytes(), &body) else { return };
        assert_eq!(sign_github(&secret, NOW, &body)["X-Hub-Signature-256"], format!("sha256={expected}"));
    }
}
