//! Tests requests as other peers make them, and requests that nobody should make.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{Extensions, HeaderMap};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prost::Message as _;
use tonic::metadata::MetadataMap;
use tonic::server::NamedService;
use tonic::{Code, Request, Response, Status};
use tower_service::Service;

use super::handmade::{self, envelope, metadata};
use super::{Listening, SECRET, key, plain_receiver, receiver};
use crate::receiver::{Receiver, ReceiverOptions, Source};
use crate::transport::grpc::generated::receiver_client::ReceiverClient;
use crate::transport::grpc::generated::{Answer, Envelope};
use postroom_core::work::handler::Memory;

const GRPC: &str = "application/grpc";

fn request(headers: HeaderMap, envelope: Envelope) -> Request<Envelope> {
    Request::from_parts(MetadataMap::from_headers(headers), Extensions::new(), envelope)
}

/// Makes a call with the generated client, directly on the service.
async fn call(receiver: &Receiver<Memory>, headers: HeaderMap, envelope: Envelope) -> Result<Response<Answer>, Status> {
    ReceiverClient::new(receiver.grpc_service()).receive(request(headers, envelope)).await
}

fn framed(envelope: &Envelope) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(envelope.encoded_len()).unwrap());
    envelope.encode(&mut bytes).unwrap();
    bytes.freeze()
}

/// Makes a call by hand, with this head and body.
async fn post<T>(receiver: &Receiver<Memory>, path: &str, headers: HeaderMap, body: T) -> Code
where
    T: http_body::Body<Data = Bytes> + Send + 'static,
    T::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut request = http::Request::post(path).body(body).unwrap();
    *request.headers_mut() = headers;
    let Ok(response) = receiver.grpc_service().call(request).await;
    let (head, body) = response.into_parts();
    let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
    let status = head.headers.get("grpc-status").or_else(|| trailers.get("grpc-status")).unwrap();
    Code::from_bytes(status.as_bytes())
}

fn whole(envelope: &Envelope) -> Full<Bytes> {
    Full::new(framed(envelope))
}

/// Returns a body that never arrives.
fn endless() -> UnsyncBoxBody<Bytes, Infallible> {
    StreamBody::new(futures_util::stream::pending()).boxed_unsync()
}

#[tokio::test]
async fn a_peer_that_signs_by_hand_is_heard_and_can_check_the_receipt() {
    let (receiver, handled) = plain_receiver();
    let listening = Listening::start(receiver).await;
    let connections = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let origin = format!("http://{}", listening.address).parse().unwrap();
    let mut client = ReceiverClient::with_origin(connections, origin);
    let sent = envelope();
    for is_duplicate in [false, true] {
        let headers = metadata(&sent, GRPC);
        let response = client.receive(request(headers.clone(), sent.clone())).await.unwrap();
        let answer = response.get_ref();
        assert_eq!((answer.status, answer.acknowledged, answer.duplicate_detected), (200, true, is_duplicate));
        assert_eq!(answer.payload.as_deref(), Some(r#"{"number": 1}"#));
        let said = |name| response.metadata().get(name).unwrap().to_str().unwrap();
        assert_eq!(said("rf-ack"), handmade::receipt(&headers, answer, ["", said("rf-inbox-retention")]));
        assert_eq!(said("rf-inbox-retention"), (29 * 24 * 3600).to_string());
    }
    assert_eq!(handled.messages().len(), 1);
    assert_eq!((handled.messages()[0].payload.as_str(), sent.digest()), (r#"{"order":7}"#, handmade::digest(&sent)));
}

#[test]
fn a_server_by_tonic_can_mount_it() {
    // These are the bounds of `tonic::transport::Server::add_service`.
    fn mount<S>(_: S)
    where
        S: Service<http::Request<tonic::body::Body>, Response = http::Response<tonic::body::Body>, Error = Infallible>,
        S: NamedService + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        assert_eq!(S::NAME, "postroom.v1.Receiver");
    }
    mount(plain_receiver().0.grpc_service());
}

#[tokio::test]
async fn every_change_of_the_metadata_is_noticed() {
    let (receiver, handled) = plain_receiver();
    for (name, value) in [
        ("rf-source", "other"),
        ("rf-destination", "elsewhere"),
        ("rf-message-id", "a1b2c3d4-e5f6-7890-abcd-ef1234567890"),
        ("rf-enqueued-at", "1700000000000000"),
        ("rf-due-at", "1700000000000000"),
        ("rf-attempt", "2"),
        ("rf-timestamp", "1700000000000000"),
        ("rf-content-sha256", "0000000000000000000000000000000000000000000000000000000000000000"),
        ("rf-signature", "v2;kid=2026-11;AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ("rf-signature", ""),
    ] {
        let sent = envelope();
        let mut headers = metadata(&sent, GRPC);
        headers.insert(name, value.parse().unwrap());
        let status = call(&receiver, headers, sent).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "the request could not be verified"));
        assert!(status.metadata().get("rf-ack").is_none(), "{name}");
    }
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn every_change_of_the_envelope_is_noticed() {
    let (receiver, handled) = plain_receiver();
    let changes: [fn(&mut Envelope); 10] = [
        |it| it.message_id = "a1b2c3d4-e5f6-7890-abcd-ef1234567890".to_owned(),
        |it| it.correlation_id = None,
        |it| it.source_service_id = "other".to_owned(),
        |it| it.message_type = "Signal".to_owned(),
        |it| it.endpoint = "release".to_owned(),
        |it| it.payload = r#"{"order":8}"#.to_owned(),
        |it| it.payload = "no JSON".to_owned(),
        |it| drop(it.headers.insert("a".to_owned(), "2".to_owned())),
        |it| drop(it.headers.remove("a")),
        |it| drop(it.headers.insert("c".to_owned(), String::new())),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut sent = envelope();
        let headers = metadata(&sent, GRPC);
        change(&mut sent);
        let status = call(&receiver, headers, sent).await.unwrap_err();
        let said = (status.code(), status.message());
        assert_eq!(said, (Code::Unauthenticated, "the request could not be verified"), "change {number}");
    }
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn metadata_that_is_not_as_it_must_be_is_malformed() {
    let (receiver, handled) = plain_receiver();
    for name in ["rf-version", "rf-source", "rf-attempt", "rf-timestamp", "rf-content-sha256"] {
        let sent = envelope();
        let (mut missing, mut twice) = (metadata(&sent, GRPC), metadata(&sent, GRPC));
        missing.remove(name);
        let value = twice[name].clone();
        twice.append(name, value);
        for headers in [missing, twice] {
            let status = call(&receiver, headers, sent.clone()).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{name}");
        }
    }
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn a_signed_envelope_that_cannot_be_read_is_refused_for_sure() {
    let (receiver, handled) = plain_receiver();
    let changes: [fn(&mut Envelope); 3] = [
        |it| it.payload = "no JSON".to_owned(),
        |it| it.endpoint = String::new(),
        |it| it.message_type = "Gossip".to_owned(),
    ];
    for change in changes {
        let mut sent = envelope();
        change(&mut sent);
        let headers = metadata(&sent, GRPC);
        let response = call(&receiver, headers.clone(), sent).await.unwrap();
        let said = |name| response.metadata().get(name).unwrap().to_str().unwrap();
        assert_eq!((response.get_ref().status, response.get_ref().acknowledged), (400, false));
        let expected = handmade::receipt(&headers, response.get_ref(), ["", said("rf-inbox-retention")]);
        assert_eq!(said("rf-ack"), expected);
    }
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn the_content_type_is_signed_as_it_is_sent() {
    let (receiver, handled) = plain_receiver();
    let sent = envelope();
    for (signed, travels, code) in [
        ("application/grpc", "application/grpc+proto", Code::Unauthenticated),
        ("application/grpc+proto", "application/grpc+proto", Code::Ok),
    ] {
        let mut headers = metadata(&sent, signed);
        headers.insert("content-type", travels.parse().unwrap());
        assert_eq!(post(&receiver, handmade::PATH, headers, whole(&sent)).await, code, "{signed}");
    }
    assert_eq!(handled.messages().len(), 1);
}

#[tokio::test]
async fn nothing_is_read_of_a_request_that_is_not_signed() {
    let (receiver, handled) = plain_receiver();
    let sent = envelope();
    let mut headers = metadata(&sent, GRPC);
    headers.insert("content-type", GRPC.parse().unwrap());
    headers.insert("rf-attempt", "2".parse().unwrap());
    assert_eq!(post(&receiver, handmade::PATH, headers, endless()).await, Code::Unauthenticated);
    assert_eq!(post(&receiver, handmade::PATH, HeaderMap::new(), endless()).await, Code::Unauthenticated);
    assert_eq!(post(&receiver, "/postroom.v1.Receiver/Other", HeaderMap::new(), endless()).await, Code::Unimplemented);
    let huge = HeaderMap::from_iter([(http::header::CONTENT_LENGTH, "99999999".parse().unwrap())]);
    assert_eq!(post(&receiver, handmade::PATH, huge, endless()).await, Code::ResourceExhausted);
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let options = ReceiverOptions::default().body_timeout(Duration::from_millis(20));
    let (receiver, handled) = receiver(Source::new("orders", key(SECRET)), options);
    let mut headers = metadata(&envelope(), GRPC);
    headers.insert("content-type", GRPC.parse().unwrap());
    assert_eq!(post(&receiver, handmade::PATH, headers, endless()).await, Code::DeadlineExceeded);
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn what_is_compressed_is_not_unpacked() {
    let (receiver, handled) = plain_receiver();
    let sent = envelope();
    let mut headers = metadata(&sent, GRPC);
    headers.insert("content-type", GRPC.parse().unwrap());
    let mut marked = BytesMut::from(framed(&sent));
    marked[0] = 1;
    let marked = Full::new(marked.freeze());
    assert_eq!(post(&receiver, handmade::PATH, headers.clone(), marked).await, Code::Internal);
    headers.insert("grpc-encoding", "gzip".parse().unwrap());
    assert_eq!(post(&receiver, handmade::PATH, headers, whole(&sent)).await, Code::Unimplemented);
    assert!(handled.messages().is_empty());
}

#[tokio::test]
async fn the_other_name_is_answered_to_and_signed_as_it_is_called() {
    let (receiver, handled) = plain_receiver();
    let other = "/RFReceiver/Receive";
    for (signed, called, code) in [
        (other, other, Code::Ok),
        (handmade::PATH, handmade::PATH, Code::Ok),
        (handmade::PATH, other, Code::Unauthenticated),
        (other, handmade::PATH, Code::Unauthenticated),
        (other, "/RFReceiver/Other", Code::Unimplemented),
    ] {
        let sent = envelope();
        let mut headers = handmade::metadata_for(signed, &sent, GRPC);
        headers.insert("content-type", GRPC.parse().unwrap());
        assert_eq!(post(&receiver, called, headers, whole(&sent)).await, code, "{signed} at {called}");
    }
    assert_eq!(handled.messages().len(), 2);
}
