//! A manager that makes sandboxes in one way, and what a fresh one of them looks like.

use std::path::Path;

use innkeeper_test_local::{Guest, House, Listing};
use serde_json::{Value, json};

use crate::pair::Pair;
use crate::tally::Tally;

/// The image on which faults are brought about.
pub const IMAGE: &str = "hazards:latest";

/// What all cases of one pair share.
pub struct Ground {
    /// How its sandboxes are made.
    pub pair: Pair,
    /// The manager.
    pub house: House,
    /// Every file of a sandbox that nobody has used.
    pub fresh: Listing,
    /// How often a sandbox came back clean.
    pub tally: Tally,
}

impl Ground {
    /// Starts a manager and looks at a fresh sandbox.
    ///
    /// # Errors
    /// Why sandboxes cannot be made so here.
    pub fn open(pair: Pair, layout: &Path) -> Result<Self, String> {
        let house = if pair.is_default() {
            House::open()
        } else {
            House::try_with(&pair.options())?
        };
        house.import(IMAGE, layout);
        let guest = Guest::try_lease(house.inn(), &pair.to_string(), IMAGE, &template("fresh"))?;
        let granted = (&guest.lease["strategy"], &guest.lease["rights"]);
        assert_eq!(
            granted,
            (&json!(pair.strategy), &json!(pair.rights)),
            "another way than asked for"
        );
        let fresh = guest.list();
        let again = guest.list();
        fresh.assert_equal(&again);
        guest.give_back("swap");
        Ok(Self {
            pair,
            house,
            fresh,
            tally: Tally::default(),
        })
    }

    /// A lease of a slot that no other test shares.
    #[track_caller]
    pub fn lease(&self, test: &str, more: &Value) -> Guest<'_> {
        let base = template(test);
        self.house.lease(test, IMAGE, &merged(base, more))
    }
}

/// The template of all sandboxes, its name apart.
fn template(test: &str) -> Value {
    json!({
        "env": {"INNKEEPER_TEST": test},
        "upper": "memory",
        "resources": {"memory": "1536Mi", "disk": "1Gi", "pids": 512},
        "supply": {"carry": "own"},
    })
}

fn merged(mut base: Value, more: &Value) -> Value {
    let fields = base.as_object_mut().expect("an object");
    for (name, value) in more.as_object().into_iter().flatten() {
        fields.insert(name.clone(), value.clone());
    }
    base
}
