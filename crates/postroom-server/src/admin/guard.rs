//! Checks who sends a request, before it reaches the database.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Refusal;
use super::tokens::Known;
use super::{Desk, Scope};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests that a foreign page makes a browser send: they have a foreign host name or origin.
pub(super) async fn from_here(State(desk): State<Desk>, request: Request, next: Next) -> Result<Response, Refusal> {
    let headers = request.headers();
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_ours = |host: &str| desk.0.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
    let host = text(HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    if !host.is_some_and(is_ours) {
        let advice = format!("use {}, or add the name to `hosts` in [admin]", desk.0.hosts.join(" or "));
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "this node does not have this host name", advice));
    }
    let bare = |origin: &str| origin.split_once("://").map(|(_, host)| host.to_owned()).unwrap_or_default();
    let origin = text(ORIGIN).map(bare);
    let is_cross_site = text(SITE) == Some("cross-site") && !is_opening_the_page(&request);
    let is_foreign = origin.is_some_and(|origin| !is_ours(&origin));
    if is_cross_site || is_foreign && request.method() != Method::GET {
        let advice = "send it from the admin page or from a program";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "the request comes from another site", advice));
    }
    Ok(next.run(request).await)
}

/// A user follows a link to the page. The page itself holds no data and cannot be framed.
fn is_opening_the_page(request: &Request) -> bool {
    let is_link = request.headers().get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    is_link && request.method() == Method::GET && matches!(request.uri().path(), "/" | "/admin")
}

/// The longest time for a request. The longest wait for messages is half of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stops a request that takes too long, including one with a slow body.
pub(super) async fn in_time(request: Request, next: Next) -> Result<Response, Refusal> {
    let late = |_| {
        Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the request took too long",
            "send it again, with a faster connection",
        )
    };
    tokio::time::timeout(PATIENCE, next.run(request)).await.map_err(late)
}

impl Desk {
    /// Looks up the token of a request.
    fn known(&self, headers: &HeaderMap) -> Known {
        let bearer = || {
            let (kind, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
            kind.eq_ignore_ascii_case("bearer").then(|| token.trim())
        };
        bearer().map_or(Known::Nobody, |token| self.0.tokens.look_up(token, self.0.store.clock().now()))
    }

    /// Whether the request may read.
    pub(super) fn may_read(&self, headers: &HeaderMap) -> bool {
        matches!(self.known(headers), Known::May(rights) if rights.may(Scope::Read))
    }
}

/// The scopes of a route: one of these, or any token.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) desk: Desk,
    pub(super) any_of: &'static [Scope],
}

/// Lets requests pass whose token has the scope.
pub(super) async fn with_token(
    State(Gate { desk, any_of }): State<Gate>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let needed = "send `authorization: Bearer TOKEN`; the node prints how to get a token when it starts";
    match desk.known(request.headers()) {
        Known::May(rights) if any_of.is_empty() || any_of.iter().any(|scope| rights.may(*scope)) => {
            request.extensions_mut().insert(rights);
            Ok(next.run(request).await)
        }
        Known::May(rights) => {
            let words: Vec<_> = any_of.iter().map(|scope| format!("`{}`", scope.as_str())).collect();
            let error = format!("the token {} may not do this", rights.name());
            let advice =
                format!("add {} to `may` in [tokens.{}], or use another token", words.join(" or "), rights.name());
            Err(Refusal::new(StatusCode::FORBIDDEN, error, advice))
        }
        Known::Expired(end) => {
            let error = format!("this token expired at {end}");
            Err(Refusal::new(StatusCode::UNAUTHORIZED, error, "create a new one with `postroom token NAME`"))
        }
        Known::Nobody => Err(Refusal::new(StatusCode::UNAUTHORIZED, "this request needs a valid token", needed)),
    }
}
