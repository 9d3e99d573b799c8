//! Names that the written code might trip over.

use std::marker::PhantomData;

use postroom::handler::Backend;
use postroom::store::Memory;
use postroom::{Ctx, Event, HandlerError, Handlers, push_call};
use serde::{Deserialize, Serialize};

#[push_call("handle")]
async fn handle(c: &mut Ctx<Memory>, ctx: u32, call: u32, handlers: u32) -> Result<u32, HandlerError> {
    let _ = c;
    Ok(ctx + call + handlers)
}

#[push_call("r")]
async fn r#type(r#match: u32, #[expect(unused_variables)] unused: u32) -> Result<u32, HandlerError> {
    Ok(r#match)
}

#[push_call("never")]
#[cfg(any())]
async fn never(no_such: Type) -> Result<(), HandlerError> {}

#[push_call("numbered", name = First)]
async fn _1() -> Result<(), HandlerError> {
    Ok(())
}

struct Mailer<B>(PhantomData<fn() -> B>);

#[push_call]
impl<B: Backend> Mailer<B> {
    #[push_call("mailer.send", name = Send)]
    async fn send(&self, ctx: String) -> Result<String, HandlerError> {
        Ok(ctx)
    }

    #[push_call("mailer.never", name = Never)]
    #[cfg(any())]
    async fn never(&self, no_such: Type) -> Result<(), HandlerError> {}
}

#[derive(Serialize, Deserialize, Event)]
#[event("typed.id")]
struct Typed {
    id: Id<Typed>,
    phantom: PhantomData<Typed>,
}

#[derive(Serialize, Deserialize)]
struct Id<T>(u64, PhantomData<T>);

pub(crate) fn main() {
    let handlers = Handlers::<Memory>::new().call::<Handle>().call::<Type>().call::<First>();
    let _ = handlers.calls(std::sync::Arc::new(Mailer::<Memory>(PhantomData)));
    let _ = (Handle { ctx: 1, call: 2, handlers: 3 }, Type { r#match: 1, unused: 2 }, Send { ctx: String::new() });
    let _ = Typed { id: Id(1, PhantomData), phantom: PhantomData };
}
