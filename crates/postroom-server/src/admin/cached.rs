//! Caches answers for a moment, so that many requests cause only one query.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long an answer is valid at least.
const KEPT: Duration = Duration::from_secs(2);
/// An answer is valid for this many times as long as the query took, so that queries do not become the main load.
pub(super) const TIMES: u32 = 50;
/// But never longer than this.
const KEPT_MAX: Duration = Duration::from_secs(15);

/// The last answer to one query.
pub(super) struct Cached<T> {
    kept: Arc<RwLock<Option<Kept<T>>>>,
    asking: Arc<Turn<()>>,
    /// A client may disconnect before the answer comes; the query continues for the others.
    questions: Mutex<JoinSet<()>>,
}

struct Kept<T> {
    answer: Arc<T>,
    until: Instant,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { kept: Arc::default(), asking: Arc::default(), questions: Mutex::default() }
    }
}

impl<T: Send + Sync + 'static> Cached<T> {
    /// The last answer while it is valid, otherwise a new one. During a query, other callers get the last answer. An
    /// answer that `is_bad` is valid only briefly.
    pub(super) async fn get(&self, ask: impl Future<Output = T> + Send + 'static, is_bad: fn(&T) -> bool) -> Arc<T> {
        let last = match self.last() {
            Some((answer, true)) => return answer,
            last => last.map(|(answer, _)| answer),
        };
        let asking = match (self.asking.clone().try_lock_owned(), last) {
            (Ok(asking), _) => asking,
            (Err(_), Some(last)) => return last,
            (Err(_), None) => self.asking.clone().lock_owned().await,
        };
        // Another caller may have queried in the meantime.
        if let Some((answer, true)) = self.last() {
            return answer;
        }
        let (kept, (tell, told)) = (self.kept.clone(), oneshot::channel());
        self.begin(async move {
            let began = Instant::now();
            let answer = Arc::new(ask.await);
            let long = if is_bad(&answer) { KEPT } else { (began.elapsed() * TIMES).clamp(KEPT, KEPT_MAX) };
            let new = Kept { answer: answer.clone(), until: Instant::now() + long };
            *kept.write().unwrap_or_else(PoisonError::into_inner) = Some(new);
            drop(asking);
            let _ = tell.send(answer);
        });
        match told.await {
            Ok(answer) => answer,
            // The node is stopping, and there will be no answer.
            Err(_) => std::future::pending().await,
        }
    }

    /// The last answer, however old, for callers that must not cause a query. Queries only if there is none yet.
    pub(super) async fn seen(&self, ask: impl Future<Output = T> + Send + 'static, is_bad: fn(&T) -> bool) -> Arc<T> {
        match self.last() {
            Some((answer, _)) => answer,
            None => self.get(ask, is_bad).await,
        }
    }

    fn begin(&self, question: impl Future<Output = ()> + Send + 'static) {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        while questions.try_join_next().is_some() {}
        questions.spawn(question);
    }

    /// The last answer, and whether it is still valid.
    fn last(&self) -> Option<(Arc<T>, bool)> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|kept| (kept.answer.clone(), Instant::now() < kept.until))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::time::advance;

    use super::*;

    fn good<T>(_: &T) -> bool {
        false
    }

    fn counting(asked: &Arc<AtomicU32>) -> impl Future<Output = u32> + Send + 'static {
        let asked = asked.clone();
        async move {
            tokio::task::yield_now().await;
            asked.fetch_add(1, Ordering::SeqCst) + 1
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_once_however_many_want_to_know() {
        let (cached, asked) = (Cached::default(), Arc::default());
        let answers = join_all((0..1000).map(|_| cached.get(counting(&asked), good))).await;
        assert!(answers.iter().all(|answer| **answer == 1));
        advance(KEPT).await;
        let answers = join_all((0..1000).map(|_| cached.get(counting(&asked), good))).await;
        assert!(answers.iter().all(|answer| **answer <= 2), "those that do not ask make do with the last answer");
        assert_eq!((asked.load(Ordering::SeqCst), *cached.get(counting(&asked), good).await), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_once_however_many_hang_up() {
        let (cached, asked) = (Cached::default(), Arc::default());
        for _ in 0..1000 {
            let _ = cached.get(counting(&asked), good).now_or_never();
            tokio::task::yield_now().await;
        }
        assert_eq!((*cached.get(counting(&asked), good).await, asked.load(Ordering::SeqCst)), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_cause_no_question_hears_the_last_answer() {
        let (cached, asked) = (Cached::default(), Arc::default());
        assert_eq!(*cached.seen(counting(&asked), good).await, 1);
        advance(10 * KEPT_MAX).await;
        assert_eq!(*cached.seen(counting(&asked), good).await, 1);
        assert_eq!((*cached.get(counting(&asked), good).await, *cached.seen(counting(&asked), good).await), (2, 2));
    }

    async fn slow(seconds: u64, answer: u32) -> u32 {
        advance(Duration::from_secs(seconds)).await;
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn what_took_long_is_not_asked_again_soon() {
        let cached = Cached::default();
        assert_eq!(*cached.get(slow(1, 1), good).await, 1);
        advance(Duration::from_secs(14)).await;
        assert_eq!(*cached.get(slow(0, 2), good).await, 1);
        advance(Duration::from_secs(1)).await;
        assert_eq!(*cached.get(slow(0, 3), good).await, 3, "but nothing is kept for longer");
    }

    #[tokio::test(start_paused = true)]
    async fn bad_news_is_not_kept_for_long() {
        let cached = Cached::default();
        assert_eq!(*cached.get(slow(5, 1), |_| true).await, 1);
        advance(KEPT).await;
        assert_eq!(*cached.get(slow(0, 2), good).await, 2);
    }
}
