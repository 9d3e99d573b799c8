//! What handlers see of a database server, the same for all of them.

/// Says how handlers run on a server: its store, what they are lent, and that they never run where the connection is.
macro_rules! handlers_on_server {
    ($backend:ident, $store:ident, $tx:ident, $conn:ty) => {
        impl $crate::Backend for $backend {
            type Store = $store;
            type Tx = $tx;
            type Conn<'t> = &'t mut $conn;
            type Blocking = std::convert::Infallible;

            async fn begin(store: &$store, _: std::time::Duration) -> $crate::Result<$tx> {
                $crate::db::server::HandlerTx::begin(store).await.map($tx)
            }

            fn conn(tx: &mut $tx) -> &mut $conn {
                tx.0.link.connection()
            }

            async fn enqueue(tx: &mut $tx, message: $crate::NewMessage) -> $crate::Result<$crate::Stored> {
                tx.0.enqueue(message).await
            }

            async fn arrive(
                tx: &mut $tx,
                incoming: &$crate::Incoming,
                hold: std::time::Duration,
            ) -> $crate::Result<$crate::Admission> {
                tx.0.arrive(incoming, hold).await
            }

            async fn answer(
                tx: &mut $tx,
                request: $crate::MessageId,
                from: &str,
                response: &str,
            ) -> $crate::Result<bool> {
                tx.0.answer(request, from, response).await
            }

            async fn mark(tx: &mut $tx, mark: &$crate::HandledMark, topic: &str) -> $crate::Result<bool> {
                tx.0.mark(mark, topic).await
            }

            async fn call_blocking(
                _: &mut $tx,
                _: std::sync::Arc<$crate::Message>,
                handler: std::convert::Infallible,
                _: &$crate::work::handler::States,
            ) -> $crate::HandlerResult<Option<String>> {
                match handler {}
            }

            async fn receive_blocking(
                _: &$store,
                _: &std::sync::Arc<$crate::Incoming>,
                handler: std::convert::Infallible,
                _: &$crate::work::handler::States,
            ) -> $crate::Result<$crate::work::handler::Received> {
                match handler {}
            }

            async fn commit(
                _: &$store,
                tx: $tx,
                queue: $crate::Queue,
                lease: &$crate::Lease,
                response: Option<String>,
            ) -> $crate::Result<()> {
                tx.0.commit(queue, lease, response).await
            }

            async fn commit_unacked(_: &$store, tx: $tx) -> $crate::Result<()> {
                tx.0.commit_unacked().await
            }

            fn overran(_: &$tx) -> bool {
                false
            }

            async fn roll_back(tx: $tx) -> bool {
                tx.0.roll_back().await
            }

            async fn scope<F: Future + Send>(_: &$store, handler: F) -> F::Output {
                handler.await
            }

            #[cfg(feature = "testing")]
            async fn rehearse(
                _: &$store,
                _: std::sync::Arc<$crate::Message>,
                handler: std::convert::Infallible,
                _: &$crate::work::handler::States,
            ) -> $crate::Result<()> {
                match handler {}
            }

            async fn run_blocking(
                _: &$store,
                _: $crate::Queue,
                work: Vec<($crate::Claimed, std::convert::Infallible)>,
                _: &$crate::work::handler::States,
                _: &$crate::work::batch::BatchRun,
            ) {
                if let Some((_, never)) = work.into_iter().next() {
                    match never {}
                }
            }
        }
    };
}
pub(crate) use handlers_on_server;
