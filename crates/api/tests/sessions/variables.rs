//! Ownership of a workspace's variables.

use agentiso_core::Code;
use agentiso_engine::Caller;
use serde_json::json;

use crate::house::House;

async fn set(house: &House, caller: &Caller, name: &str) {
    let vars = json!({ "workspace_id": "web", "vars": { name: "a value" } });
    house.call(caller, "set_env", vars).await.unwrap();
}

#[tokio::test]
async fn a_new_owner_gets_the_users_variables_but_not_those_of_sessions() {
    let house = House::configured("[sessions]\nadopt_idle_secs = 0\n").await;
    let (user, one, two) = (Caller::operator("test"), house.session("one").await, house.session("two").await);
    let web = house.workspace("web", one.session);
    let kept = || {
        let variables = house.meta.read(|read| read.variables(web.id)).unwrap();
        variables.into_iter().map(|variable| variable.name).collect::<Vec<_>>()
    };
    set(&house, &one, "OF_ONE").await;
    set(&house, &user, "OF_USER").await;
    assert_eq!(house.env_names(&one, "web").await, json!(["OF_ONE", "OF_USER"]));

    house.call(&two, "workspace_adopt", json!({ "workspace_id": "web", "force": true })).await.unwrap();
    assert_eq!(house.env_names(&two, "web").await, json!(["OF_USER"]));
    assert_eq!(kept(), ["OF_USER"]);

    // The same if it had no owner in between, and if it is granted.
    set(&house, &two, "OF_TWO").await;
    house.engine.end_session(two.session.unwrap()).await.unwrap();
    assert_eq!(house.env_names(&user, "web").await, json!(["OF_TWO", "OF_USER"]));
    assert_eq!(house.env_names(&one, "web").await, json!(["OF_USER"]));
    set(&house, &one, "OF_ONE").await;
    let three = house.session("three").await;
    let grant = json!({ "workspace_id": "web", "session_id": three.session.unwrap().to_string() });
    house.call(&user, "workspace_grant", grant).await.unwrap();
    assert_eq!(house.env_names(&three, "web").await, json!(["OF_USER"]));

    // A variable that a session overwrites belongs to the session.
    set(&house, &three, "OF_USER").await;
    house
        .call(&user, "workspace_grant", json!({ "workspace_id": "web", "session_id": one.session.unwrap() }))
        .await
        .unwrap();
    assert_eq!(house.env_names(&one, "web").await, json!([]));
    assert_eq!(kept(), [""; 0]);
}

#[tokio::test]
async fn variable_names_are_removed_with_the_daemon_that_knew_the_values() {
    let house = House::new().await;
    let one = house.session("one").await;
    let web = house.workspace("web", one.session);
    set(&house, &one, "LOST").await;
    let _next = crate::house::open(&house.installation).await;
    assert!(house.meta.read(|read| read.variables(web.id)).unwrap().is_empty());
}

#[tokio::test]
async fn the_number_of_variables_is_limited() {
    let house = House::new().await;
    let one = house.session("one").await;
    house.workspace("web", one.session);
    let many = |count: usize, letter: &str| {
        let vars = (0..count).map(|number| (format!("{letter}{number}"), json!("x")));
        json!({ "workspace_id": "web", "vars": vars.collect::<serde_json::Map<_, _>>() })
    };
    house.call(&one, "set_env", many(256, "A")).await.unwrap();
    let refused = house.call(&one, "set_env", many(1, "B")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let long = json!({ "workspace_id": "web", "vars": { "A".repeat(256): null } });
    assert_eq!(house.call(&one, "set_env", long).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(house.env_names(&one, "web").await.as_array().unwrap().len(), 256);
}
