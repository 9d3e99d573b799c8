//! Tests of signatures: published vectors, an independent implementation, and signatures that must not verify.

#[cfg(feature = "http")]
mod verdicts;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::algorithm::HmacAlgorithm;
use super::envelope::Envelope;
use super::headers;
use super::key::Key;
use super::secret::Secret;
use super::signature::{Head, Receipt, Signature, is_signed_v1, sign_v1};
use postroom_core::message::{Headers, hash_bytes};
use postroom_core::support::clock::Timestamp;

const VECTORS: &str = include_str!("../../vectors/signatures.jsonl");
const CHECKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/signatures.py");
const SECRET: &str = "an example secret, long enough to be one";

fn key(id: &str, secret: &str) -> Key {
    Key::new(id, Secret::parse(secret).unwrap()).unwrap()
}

/// Returns the key of a vector. A vector without an algorithm has the default one.
fn key_of(vector: &Value) -> Key {
    let algorithm = vector.get("algorithm").map(|_| text(vector, "algorithm").parse().unwrap()).unwrap_or_default();
    key(&text(vector, "kid"), &text(vector, "secret")).algorithm(algorithm)
}

fn text(vector: &Value, name: &str) -> String {
    vector[name].as_str().unwrap_or_else(|| panic!("no {name} in {vector}")).to_owned()
}

fn micros(vector: &Value, name: &str) -> Option<Timestamp> {
    text(vector, name).parse().ok().map(Timestamp::from_micros)
}

fn head(vector: &Value) -> Head {
    Head {
        source: text(vector, "source"),
        destination: text(vector, "destination"),
        method: text(vector, "method"),
        path: text(vector, "path"),
        message_id: text(vector, "messageId"),
        enqueued_at: micros(vector, "enqueuedAt").unwrap(),
        due_at: micros(vector, "dueAt"),
        attempt: text(vector, "attempt").parse().unwrap(),
        timestamp: micros(vector, "timestamp").unwrap(),
        content_type: text(vector, "contentType"),
        digest: hash_bytes(text(vector, "body")),
    }
}

fn receipt(vector: &Value) -> Receipt {
    Receipt {
        destination: text(vector, "destination"),
        message_id: text(vector, "messageId"),
        timestamp: micros(vector, "timestamp").unwrap(),
        status: text(vector, "status").parse().unwrap(),
        digest: hash_bytes(text(vector, "body")),
        beside: vector.get("retention").map(|_| [text(vector, "retryAfter"), text(vector, "retention")]),
    }
}

/// Signs the fields of a vector.
fn signed(vector: &Value) -> String {
    let key = key_of(vector);
    match vector["what"].as_str() {
        Some("request") => head(vector).sign(&[key]),
        Some("receipt") => receipt(vector).sign(&[key]),
        _ => sign_v1(&envelope(vector), &key),
    }
}

fn envelope(vector: &Value) -> Envelope {
    Envelope {
        message_id: text(vector, "messageId"),
        correlation_id: None,
        source_service_id: text(vector, "sourceServiceId"),
        message_type: "Signal".into(),
        endpoint: text(vector, "endpoint"),
        payload: RawValue::from_string(text(vector, "payload")).unwrap(),
        headers: Headers::new(),
    }
}

fn example() -> Head {
    let vectors = VECTORS.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    head(&vectors.into_iter().find(|vector| vector["what"] == "request").unwrap())
}

#[test]
fn the_published_vectors_hold() {
    for line in VECTORS.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        assert_eq!(signed(&vector), text(&vector, "signature"), "{line}");
    }
    assert!(VECTORS.lines().count() >= 9);
}

fn word(random: &mut fastrand::Rng, most: usize) -> String {
    let letters = ['a', 'Z', '0', '-', '.', '/', ' ', 'ä', '€', '"', '\\', '\n', '{', '}'];
    (0..random.usize(1..=most)).map(|_| letters[random.usize(..letters.len())]).collect()
}

fn random_vector(random: &mut fastrand::Rng) -> Value {
    let id = uuid::Uuid::from_u128(random.u128(1..)).to_string();
    let (secret, kid) = (format!("{SECRET} {}", word(random, 40)), format!("k{}", random.u32(..)));
    let micros = |random: &mut fastrand::Rng| random.i64(0..4_000_000_000_000_000).to_string();
    let mut vector = match random.u8(..3) {
        0 => json!({ "what": "request", "secret": secret, "kid": kid, "source": word(random, 64),
            "destination": word(random, 64), "method": "POST", "path": word(random, 80), "messageId": id,
            "enqueuedAt": micros(random), "dueAt": if random.bool() { micros(random) } else { String::new() },
            "attempt": random.u32(1..99).to_string(), "timestamp": micros(random), "contentType": word(random, 40),
            "body": word(random, 300) }),
        1 => json!({ "what": "receipt", "secret": secret, "kid": kid, "destination": word(random, 64), "messageId": id,
            "timestamp": micros(random), "status": random.u16(100..600).to_string(), "body": word(random, 300),
            "retryAfter": if random.bool() { "30" } else { "" }, "retention": random.u32(..).to_string() }),
        _ => json!({ "what": "v1", "secret": secret, "kid": kid, "messageId": id,
            "sourceServiceId": word(random, 64), "endpoint": word(random, 64),
            "payload": json!({ "text": word(random, 300) }).to_string() }),
    };
    if random.bool() {
        let algorithm = HmacAlgorithm::ALL[random.usize(..HmacAlgorithm::ALL.len())];
        vector["algorithm"] = algorithm.to_string().into();
    }
    vector
}

#[test]
fn an_independent_implementation_signs_the_same() {
    let mut random = fastrand::Rng::with_seed(4);
    let vectors: Vec<Value> = (0..2_000).map(|_| random_vector(&mut random)).collect();
    let mut python = Command::new("python3")
        .arg(CHECKER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed to check the signatures by an independent implementation");
    let mut input = python.stdin.take().unwrap();
    let lines: String = vectors.iter().map(|vector| format!("{vector}\n")).collect();
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writing.join().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), vectors.len());
    for (vector, answer) in vectors.iter().zip(answers.lines()) {
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(signed(vector), text(&answer, "signature"), "{vector}");
    }
}

#[test]
fn a_head_is_read_as_it_was_written() {
    let head = example();
    let keys = [key("new", SECRET), key("old", &SECRET.replace("example", "earlier"))];
    let mut written = http::HeaderMap::new();
    headers::write(&head, &head.sign(&keys), &mut written).unwrap();
    headers::set(&mut written, "content-type", &head.content_type).unwrap();
    let (read, signatures) = headers::read(&written, &head.method, &head.path).unwrap();
    assert_eq!((&read, signatures.len()), (&head, 2));
    for known in &keys {
        assert!(head.is_signed(&signatures, std::slice::from_ref(known), &[key("decoy", SECRET)]), "{known:?}");
    }
    let other = key("new", &SECRET.replace("example", "another"));
    assert!(!head.is_signed(&signatures, &[other], &[key("decoy", SECRET)]));
    assert!(!head.is_signed(&signatures, &[], &keys), "the decoy never counts");
}

#[test]
fn every_change_of_a_signed_field_is_noticed() {
    let (head, key) = (example(), key("a", SECRET));
    let signatures = Signature::parse_list(&head.sign(std::slice::from_ref(&key)));
    let changes: [fn(&mut Head); 11] = [
        |head| head.source.push('x'),
        |head| head.destination.push('x'),
        |head| head.method.push('x'),
        |head| head.path.push('x'),
        |head| head.message_id.push('x'),
        |head| head.enqueued_at = head.enqueued_at.plus(std::time::Duration::from_micros(1)),
        |head| head.due_at = Some(Timestamp::from_micros(1)),
        |head| head.attempt += 1,
        |head| head.timestamp = head.timestamp.plus(std::time::Duration::from_micros(1)),
        |head| head.content_type.push('x'),
        |head| head.digest[31] ^= 1,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = head.clone();
        change(&mut changed);
        assert!(!changed.is_signed(&signatures, std::slice::from_ref(&key), &[]), "change {at}");
    }
    assert!(head.is_signed(&signatures, std::slice::from_ref(&key), &[]));
}

#[test]
fn a_key_of_one_algorithm_takes_nothing_of_another() {
    let (head, usual) = (example(), key("a", SECRET));
    let longer = usual.clone().algorithm(HmacAlgorithm::Sha512);
    let by = |key: &Key| Signature::parse_list(&head.sign(std::slice::from_ref(key)));
    let decoys = [key("decoy", SECRET), key("decoy", SECRET).algorithm(HmacAlgorithm::Sha512)];
    for (signer, verifier, holds) in
        [(&usual, &usual, true), (&longer, &longer, true), (&usual, &longer, false), (&longer, &usual, false)]
    {
        assert_eq!(head.is_signed(&by(signer), std::slice::from_ref(verifier), &decoys), holds);
    }
    let short: String = by(&longer)[0].to_string().chars().take("v2;kid=a;".len() + 43).collect();
    for keys in [[usual.clone()], [longer]] {
        assert!(!head.is_signed(&Signature::parse_list(&short), &keys, &decoys), "{short}");
    }
    let both = [usual, key("b", SECRET).algorithm(HmacAlgorithm::Sha512)];
    let signatures = Signature::parse_list(&head.sign(&both));
    assert!(both.iter().all(|known| head.is_signed(&signatures, std::slice::from_ref(known), &decoys)));
}

#[test]
fn text_cannot_move_from_one_field_to_the_next() {
    let (head, key) = (example(), key("a", SECRET));
    let moved = Head {
        source: format!("{}{}", head.source, &head.destination[..1]),
        destination: head.destination[1..].to_owned(),
        ..head.clone()
    };
    assert_ne!(head.sign(std::slice::from_ref(&key)), moved.sign(std::slice::from_ref(&key)));
}

#[test]
fn v1_notices_another_payload_and_another_key() {
    let vector = json!({ "messageId": "a1b2c3d4-e5f6-7890-abcd-ef1234567890", "sourceServiceId": "orders",
        "endpoint": "OrderApproved", "payload": "{\"order\":7}" });
    let (envelope, ours) = (envelope(&vector), key("a", SECRET));
    let signature = sign_v1(&envelope, &ours);
    let others = [key("b", &SECRET.replace("example", "another"))];
    assert!(is_signed_v1(&envelope, &signature, std::slice::from_ref(&ours), &[]));
    assert!(!is_signed_v1(&envelope, &signature, &others, &[]));
    assert!(!is_signed_v1(&envelope, &signature, &[], std::slice::from_ref(&ours)), "the decoy never counts");
    assert!(!is_signed_v1(&envelope, "", std::slice::from_ref(&ours), &[]));
    let respaced = Envelope { payload: RawValue::from_string("{\"order\": 7}".into()).unwrap(), ..envelope };
    assert!(!is_signed_v1(&respaced, &signature, std::slice::from_ref(&ours), &[]), "bytes count, not meaning");
}

#[test]
fn nonsense_in_headers_is_refused_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..20_000 {
        let nonsense: String = (0..random.usize(..80)).map(|_| random.char(' '..'~')).collect();
        assert!(Signature::parse_list(&nonsense).is_empty());
        let mut written = http::HeaderMap::new();
        for name in [headers::SOURCE, headers::SIGNATURE, headers::TIMESTAMP, headers::ATTEMPT, headers::DIGEST] {
            headers::set(&mut written, name, &nonsense).unwrap();
        }
        assert!(headers::read(&written, "POST", "/").is_err());
    }
}

#[test]
fn numbers_have_one_form_only() {
    let head = example();
    for (name, value) in [
        (headers::ATTEMPT, "01"),
        (headers::ATTEMPT, "+1"),
        (headers::ATTEMPT, "1 "),
        (headers::TIMESTAMP, "-0"),
        (headers::ENQUEUED_AT, "1e3"),
        (headers::DIGEST, "AB"),
        (headers::VERSION, "2.0"),
        (headers::SOURCE, "Orders"),
        (headers::MESSAGE_ID, "1"),
    ] {
        let mut written = http::HeaderMap::new();
        headers::write(&head, "v2;kid=a;x", &mut written).unwrap();
        headers::set(&mut written, "content-type", "application/json").unwrap();
        assert!(headers::read(&written, "POST", "/").is_ok());
        headers::set(&mut written, name, value).unwrap();
        assert!(headers::read(&written, "POST", "/").is_err(), "{name}: {value}");
    }
    let mut twice = http::HeaderMap::new();
    headers::write(&head, "v2;kid=a;x", &mut twice).unwrap();
    headers::set(&mut twice, "content-type", "application/json").unwrap();
    twice.append(headers::SOURCE, "orders".parse().unwrap());
    assert!(headers::read(&twice, "POST", "/").is_err(), "which of the two?");
}
