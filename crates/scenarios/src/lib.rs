//! x
mod plan;
mod race;
mod seam;
mod seven_stations;
mod world;
pub use plan::Plan;
use tidegate::explorer::Scenario;
/// x
pub fn all() -> Vec<Box<dyn Scenario>> { vec![Box::new(seven_stations::RACE)] }
