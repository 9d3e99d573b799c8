//! Tests what gRPC statuses report, and what they never reveal.

use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::handmade::envelope;
use crate::receiver::Reply;
use crate::transport::grpc::generated::Answer;
use crate::transport::grpc::{is_grpc, status};

#[test]
fn statuses_of_grpc_have_a_number() {
    for (code, number) in [
        (Code::InvalidArgument, 400),
        (Code::Unauthenticated, 401),
        (Code::PermissionDenied, 403),
        (Code::NotFound, 404),
        (Code::Unimplemented, 404),
        (Code::ResourceExhausted, 413),
        (Code::Internal, 500),
        (Code::Unknown, 500),
        (Code::Cancelled, 500),
        (Code::Unavailable, 503),
    ] {
        let answered = status::answered(&Status::new(code, "so it is")).unwrap();
        assert_eq!((answered.status, answered.has_receipt), (number, false), "{code:?}");
        assert_eq!(answered.answer.unwrap().error.as_deref(), Some("so it is"));
    }
}

#[test]
fn who_has_too_much_to_do_says_when_to_come_back() {
    let mut metadata = MetadataMap::new();
    metadata.insert("retry-after", "7".parse().unwrap());
    let status = Status::with_metadata(Code::ResourceExhausted, "", metadata);
    let answered = status::answered(&status).unwrap();
    assert_eq!((answered.status, answered.retry_after), (429, Some(Duration::from_secs(7))));
}

#[test]
fn grpc_is_told_by_its_content_type() {
    let is_grpc = |text: &str| is_grpc(&HeaderMap::from_iter([(CONTENT_TYPE, text.parse().unwrap())]));
    for text in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
        assert!(is_grpc(text), "{text}");
    }
    for text in ["application/json", "application/grpc-web", "application/grpc-web+proto", ""] {
        assert!(!is_grpc(text), "{text}");
    }
}

#[test]
fn payloads_are_never_printed() {
    let mut sent = envelope();
    sent.payload = "\"hunter2\"".to_owned();
    sent.headers.insert("token".to_owned(), "hunter2".to_owned());
    let answer = Answer::from(&Reply::handled(Some("\"hunter2\"".to_owned())));
    let printed = format!("{sent:?} {answer:?}");
    assert!(printed.contains("reserve") && !printed.contains("hunter2"), "{printed}");
}
