//! Many stores, each under a key: the right one, the same one, or a clear refusal.

use postroom::ErrorKind;
use postroom::tenancy::{Router, Stores};
use uuid::Uuid;

use crate::case::{Verdict, cases};
use crate::harness::{Draft, Stage, Testable};

cases! { router:
    worker each_database_has_a_store_of_its_own ["OBX-066", "IBX-085", "API-3.1.1", "API-6.2"];
    worker each_store_keeps_its_name_and_no_two_share_one ["OBX-070", "IBX-089"];
    worker a_key_leads_to_the_same_doors_each_time ["OBX-072", "IBX-091", "API-3.1.1"];
    worker an_unknown_key_is_refused_and_named ["OBX-073", "IBX-092", "API-3.1.2"];
    worker a_key_is_text_or_a_uuid ["OBX-074", "IBX-091", "API-3.2"];
}

async fn tenants<B: Testable>(stage: &Stage<B>, names: &[&str]) -> anyhow::Result<Vec<Stage<B>>> {
    let mut tenants = Vec::new();
    for name in names {
        tenants.push(stage.another(name).await?);
    }
    Ok(tenants)
}

fn stores<B: Testable>(tenants: &[Stage<B>]) -> anyhow::Result<Stores<B::Store>> {
    Ok(Stores::fixed(tenants.iter().map(|tenant| tenant.store.clone()))?)
}

async fn each_database_has_a_store_of_its_own<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = tenants(stage, &["a", "b", "c"]).await?;
    let router = Router::new(&stores(&tenants)?);
    for (count, tenant) in tenants.iter().enumerate() {
        for _ in 0..=count {
            let draft = Draft::new("a");
            router.outbox(tenant.place.name())?.enqueue(draft.outgoing()).await?;
            router.inbox(tenant.place.name())?.enqueue(draft.incoming()?).await?;
        }
    }
    for (ready, tenant) in (1..).zip(&tenants) {
        assert_eq!(tenant.outbox.queue().stats().await?.ready, ready);
        assert_eq!(tenant.inbox.queue().stats().await?.ready, ready);
    }
    Ok(())
}

async fn each_store_keeps_its_name_and_no_two_share_one<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = tenants(stage, &["b", "a"]).await?;
    let stores = stores(&tenants)?;
    let names: Vec<_> = tenants.iter().map(|tenant| tenant.place.name().into()).collect();
    for _ in 0..3 {
        assert_eq!(stores.keys(), names);
    }
    for tenant in &tenants {
        assert_eq!(postroom::store::Store::name(&stores.get(tenant.place.name())?), tenant.place.name());
    }
    let twice = Stores::fixed([&tenants[0], &tenants[1], &tenants[0]].map(|tenant| tenant.store.clone()));
    let refused = twice.err().ok_or_else(|| anyhow::anyhow!("two stores of one name were taken"))?;
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains(tenants[0].place.name()), "{refused}");
    Ok(())
}

async fn a_key_leads_to_the_same_doors_each_time<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = tenants(stage, &["a", "b"]).await?;
    let router = Router::new(&stores(&tenants)?);
    let [a, b] = [0, 1].map(|tenant: usize| tenants[tenant].place.name());
    // One and the same object calls itself by one and the same text.
    let outbox = |key| router.outbox(key).map(|outbox| outbox.queue().store_name().as_ptr().addr());
    let inbox = |key| router.inbox(key).map(|inbox| inbox.queue().store_name().as_ptr().addr());
    assert_eq!(outbox(a)?, outbox(a)?);
    assert_eq!(inbox(b)?, inbox(b)?);
    assert_ne!(outbox(a)?, outbox(b)?);
    assert_eq!(router.clone().outbox(a)?.queue().store_name(), a);
    assert_eq!(postroom::store::Store::name(&router.store(b)?), b);
    Ok(())
}

async fn an_unknown_key_is_refused_and_named<B: Testable>(stage: &Stage<B>) -> Verdict {
    let tenants = tenants(stage, &["a", "b", "c", "d", "e", "f", "g"]).await?;
    let router = Router::new(&stores(&tenants)?);
    let long = "x".repeat(10_000);
    for key in ["initech", "store", &long] {
        let errors = [router.outbox(key).err(), router.inbox(key).err(), router.store(key).err()];
        for refused in errors.into_iter().map(|error| error.ok_or_else(|| anyhow::anyhow!("{key} is known"))) {
            let refused = refused?;
            assert_eq!(refused.kind(), ErrorKind::UnknownStore);
            let message = refused.to_string();
            assert!(message.contains(&key[..key.len().min(60)]), "{message}");
            assert!(message.contains(tenants[0].place.name()) && message.contains("2 more"), "{message}");
            assert!(message.len() < 1000, "{} bytes", message.len());
        }
    }
    let empty = router.outbox("").err().map(|error| error.kind());
    assert_eq!(empty, Some(ErrorKind::InvalidInput));
    Ok(())
}

async fn a_key_is_text_or_a_uuid<B: Testable>(stage: &Stage<B>) -> Verdict {
    let id = Uuid::now_v7();
    let tenants = [stage.another("a").await?, stage.called(id.to_string()).await?];
    let router = Router::new(&stores(&tenants)?);
    let name = tenants[0].place.name();
    assert_eq!(router.outbox(name)?.queue().store_name(), name);
    assert_eq!(router.inbox(name.to_owned())?.queue().store_name(), name);
    let text = id.to_string();
    assert_eq!(router.outbox(id)?.queue().store_name(), text);
    assert_eq!(router.outbox(text.as_str())?.queue().store_name(), text);
    assert_eq!(router.inbox(id)?.queue().store_name(), text);
    let stranger = Uuid::now_v7();
    let refused = router.outbox(stranger).err().ok_or_else(|| anyhow::anyhow!("nobody has that id"))?;
    assert!(refused.to_string().contains(&stranger.to_string()), "{refused}");
    Ok(())
}
