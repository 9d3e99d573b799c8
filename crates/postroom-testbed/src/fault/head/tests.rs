use tokio::io::{AsyncReadExt, BufReader};

use super::*;

const GET: Request = Request { framing: Framing::Empty, is_head: false };

fn request_framing(headers: &str) -> Result<Framing, httparse::Error> {
    let bytes = format!("POST / HTTP/1.1\r\n{headers}\r\n");
    Ok(request(bytes.as_bytes())?.unwrap().1.framing)
}

fn answer(to: Request, line: &str, headers: &str) -> Response {
    let bytes = format!("HTTP/1.1 {line}\r\n{headers}\r\n");
    response(to, bytes.as_bytes()).unwrap().unwrap().1
}

/// Returns what is read in pieces of this size, and what is left.
async fn read_request(bytes: &[u8], piece: usize) -> (Opening<Request>, Vec<u8>) {
    let mut from = BufReader::with_capacity(piece, bytes);
    let opening = read(&mut from, request).await.unwrap();
    let mut left = Vec::new();
    from.read_to_end(&mut left).await.unwrap();
    (opening, left)
}

#[test]
fn a_request_has_the_body_that_its_headers_announce() {
    let cases = [
        ("", Framing::Empty),
        ("content-length: 12\r\n", Framing::Length(12)),
        ("Content-Length: 12\r\nTransfer-Encoding: gzip, Chunked\r\n", Framing::Chunked),
    ];
    for (headers, framing) in cases {
        assert_eq!(request_framing(headers), Ok(framing), "{headers}");
    }
    assert!(request_framing("content-length: many\r\n").is_err());
}

#[test]
fn an_answer_has_the_body_that_its_code_and_headers_announce() {
    let length = "content-length: 3\r\n";
    let cases = [
        ("200 OK", length, Framing::Length(3)),
        ("200 OK", "transfer-encoding: chunked\r\n", Framing::Chunked),
        ("200 OK", "", Framing::UntilClose),
        ("204 No Content", "", Framing::Empty),
        ("304 Not Modified", length, Framing::Empty),
        ("101 Switching Protocols", "", Framing::Switched),
    ];
    for (line, headers, framing) in cases {
        assert_eq!(answer(GET, line, headers), Response { framing, is_interim: false }, "{line} {headers}");
    }
    assert_eq!(answer(GET, "100 Continue", ""), Response { framing: Framing::Empty, is_interim: true });
    assert_eq!(answer(Request { is_head: true, ..GET }, "200 OK", length).framing, Framing::Empty);
}

#[tokio::test]
async fn a_head_is_read_to_its_end_in_pieces_of_any_size() {
    let head = b"POST /a HTTP/1.1\r\nhost: b\r\ncontent-length: 4\r\n\r\n".to_vec();
    let bytes = [head.as_slice(), b"body"].concat();
    for piece in 1..bytes.len() {
        let framing = Framing::Length(4);
        let expected = Opening::Head(head.clone(), Request { framing, is_head: false });
        assert_eq!(read_request(&bytes, piece).await, (expected, b"body".to_vec()), "{piece}");
    }
}

#[tokio::test]
async fn what_is_no_head_is_kept_in_full() {
    let hello_of_tls = b"\x16\x03\x01\x02\x00".as_slice();
    for bytes in [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), hello_of_tls, b"GET / HT"] {
        for piece in 1..=bytes.len() {
            let (opening, left) = read_request(bytes, piece).await;
            let Opening::Foreign(mut kept) = opening else { panic!("{opening:?}") };
            kept.extend(left);
            assert_eq!(kept, bytes);
        }
    }
    assert_eq!(read_request(b"", 1).await, (Opening::End, Vec::new()));
}
