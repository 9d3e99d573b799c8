use postroom::Signal;

#[derive(Signal, serde::Serialize, serde::Deserialize)]
#[signal("order.approved")]
struct OrderApproved {
    order: u64,
    by: Person,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Person {
    name: String,
    last: Option<Decision>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Decision {
    approved: OrderApproved,
}

fn main() {}
