//! Who may ask. Before anything is asked of the database.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Refusal;
use super::{Desk, Scope};

/// Turns away what a page of somebody else makes a browser send here: it comes under a foreign name, or from one.
pub(super) async fn from_here(State(desk): State<Desk>, request: Request, next: Next) -> Result<Response, Refusal> {
    let headers = request.headers();
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_ours = |host: &str| desk.0.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
    let host = text(HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    if !host.is_some_and(is_ours) {
        let advice = format!("ask {}", desk.0.hosts.join(" or "));
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "this is not the host that was asked for", advice));
    }
    let bare = |origin: &str| origin.split_once("://").map(|(_, host)| host.to_owned()).unwrap_or_default();
    let origin = text(ORIGIN).map(bare);
    let is_cross_site = site(headers).is_some_and(|site| site == "cross-site");
    let is_foreign = origin.is_some_and(|origin| !is_ours(&origin));
    if is_cross_site || is_foreign && request.method() != Method::GET {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "the request comes from another site", "send it from here"));
    }
    Ok(next.run(request).await)
}

fn site(headers: &HeaderMap) -> Option<&str> {
    headers.get("sec-fetch-site")?.to_str().ok()
}

/// Lets those pass whose token may do it.
pub(super) async fn with_token(
    State(desk): State<Desk>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let needed = if matches!(*request.method(), Method::GET | Method::HEAD) { Scope::Read } else { Scope::Write };
    let said = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = said.and_then(|said| said.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    match token.and_then(|(_, token)| desk.0.tokens.rights_of(token.trim())) {
        Some(rights) if rights.scope >= needed => {
            request.extensions_mut().insert(rights);
            Ok(next.run(request).await)
        }
        Some(_) => Err(Refusal::new(StatusCode::FORBIDDEN, "this token may only read", "use one that may write")),
        None => Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "a token is needed",
            "send `authorization: Bearer TOKEN`; the node says at its start how to get one",
        )),
    }
}
