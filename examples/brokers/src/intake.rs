//! What both brokers share: a message that one of them brought, on its way into the inbox.

use postroom::message::{Headers, hash_bytes};
use postroom::store::Arrival;
use postroom::{ErrorKind, Inbox, InboxKey, Incoming};
use tracing::{error, warn};

/// A larger payload belongs into a file store, and its address into the message.
const PAYLOAD_BYTES_MAX: usize = 512 * 1024;

/// A message as a broker brings it.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The sender's id, which a message sent again has too.
    pub id: Option<&'a str>,
    /// Routes it to its handler.
    pub topic: &'a str,
    /// Its content.
    pub payload: &'a [u8],
    /// Named values beside it.
    pub headers: Headers,
    /// Links it to what caused it.
    pub correlation_id: Option<&'a str>,
}

/// What to tell the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Forget it: the inbox has it, perhaps since an earlier delivery.
    Stored,
    /// Bring it again later: the database is away.
    Later,
    /// Put it aside: it would be refused every time.
    Poison,
}

/// Puts a message into the inbox; it is durable when the verdict says so. `source` names the broker and the queue.
pub async fn take(inbox: &Inbox, source: &str, arrived: Arrived<'_>) -> Verdict {
    let (id, topic) = (arrived.id, arrived.topic);
    let incoming = match incoming(source, arrived) {
        Ok(incoming) => incoming,
        Err(why) => {
            error!(source, id, topic, why, "the message is put aside");
            return Verdict::Poison;
        }
    };
    match inbox.accept(incoming).await {
        Ok(Arrival::Known { differs: true, .. }) => {
            error!(source, id, topic, "the message is put aside: its id came with other content before");
            Verdict::Poison
        }
        Ok(_) => Verdict::Stored,
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            error!(source, id, topic, %error, "the message is put aside");
            Verdict::Poison
        }
        Err(error) => {
            warn!(source, id, topic, %error, "the inbox is out of reach; the message waits in the broker");
            Verdict::Later
        }
    }
}

fn incoming(source: &str, arrived: Arrived<'_>) -> Result<Incoming, String> {
    let id = arrived.id.ok_or("it has no message id: a second delivery could not be told from another message")?;
    if arrived.payload.len() > PAYLOAD_BYTES_MAX {
        return Err(format!("{} bytes are too many", arrived.payload.len()));
    }
    let payload = std::str::from_utf8(arrived.payload).map_err(|_| "the payload is not UTF-8")?;
    let key = InboxKey::new(source, id).map_err(|error| error.to_string())?;
    let content = [arrived.topic.as_bytes(), &[0], arrived.payload].concat();
    let mut incoming = Incoming::new(key, arrived.topic, payload).hash(hash_bytes(content));
    // Those names are Postroom's own, between services; whoever publishes here is not one of them.
    for (name, value) in arrived.headers.into_iter().filter(|(name, _)| !name.starts_with("rf-")) {
        incoming = incoming.header(name, value);
    }
    Ok(incoming.correlation_id(arrived.correlation_id.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use postroom::store::MemoryStore;

    use super::*;

    fn arrived(topic: &'static str, payload: &'static str) -> Arrived<'static> {
        let headers = [("rf-answer-to", "orders"), ("tenant", "blue")].map(|(name, value)| (name.into(), value.into()));
        Arrived { id: Some("1"), topic, payload: payload.as_bytes(), headers: headers.into(), correlation_id: None }
    }

    /// A sender that counts from one again after a restart: what it says is not forgotten without a word.
    #[tokio::test]
    async fn an_id_that_came_with_other_content_is_put_aside() {
        let inbox = Inbox::new(MemoryStore::new());
        assert_eq!(take(&inbox, "rabbitmq", arrived("a", "1")).await, Verdict::Stored);
        assert_eq!(take(&inbox, "rabbitmq", arrived("a", "1")).await, Verdict::Stored);
        assert_eq!(take(&inbox, "rabbitmq", arrived("a", "2")).await, Verdict::Poison);
        assert_eq!(take(&inbox, "rabbitmq", arrived("b", "1")).await, Verdict::Poison);
        assert_eq!(take(&inbox, "nats", arrived("b", "1")).await, Verdict::Stored);
    }

    #[tokio::test]
    async fn headers_of_the_wire_stay_behind() {
        let inbox = Inbox::new(MemoryStore::new());
        assert_eq!(take(&inbox, "rabbitmq", arrived("a", "1")).await, Verdict::Stored);
        let stored = inbox.get(&InboxKey::new("rabbitmq", "1").unwrap()).await.unwrap().unwrap();
        assert_eq!(stored.message().unwrap().headers.keys().collect::<Vec<_>>(), ["tenant"]);
    }
}
