//! Ready-made scenes: the named parts (`frame/knot/vertices`, …) of the frame of the frame-graph
//! workload. A library makes each size once. Used to fill buffers and to compare results.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tidegate_programs::frame::{Frame, Object};

use tidegate_workload::content::SceneLibrary;
use tidegate_workload::model::Content;

/// Rotation of the knot in the picture, in radians.
const TURN: f32 = 0.0;

/// The scenes that the engines can draw.
#[derive(Debug, Default)]
pub struct Scenes {
    frames: RefCell<HashMap<(u32, u32), Rc<Frame>>>,
}

impl Scenes {
    /// Creates an empty library.
    pub fn new() -> Self {
        Self::default()
    }

    fn frame(&self, width: u32, height: u32) -> Rc<Frame> {
        let mut frames = self.frames.borrow_mut();
        Rc::clone(
            frames
                .entry((width, height))
                .or_insert_with(|| Rc::new(Frame::new(width, height, TURN))),
        )
    }
}

impl SceneLibrary for Scenes {
    fn part(&self, content: &Content) -> Option<Vec<u8>> {
        let part = content.name.strip_prefix("frame/")?;
        // A camera needs an aspect above 0.
        if content.width == 0 || content.height == 0 {
            return None;
        }
        let frame = self.frame(content.width, content.height);
        if part == "shade_constants" {
            return Some(frame.shade.to_bytes());
        }
        let (name, what) = part.split_once('/')?;
        let object = frame.objects.iter().find(|object| object.name == name)?;
        part_of(object, what)
    }
}

fn part_of(object: &Object, what: &str) -> Option<Vec<u8>> {
    match what {
        "vertices" => Some(object.mesh.vertex_bytes()),
        "indices" => Some(object.mesh.index_bytes()),
        "texture" => Some(object.texture.bytes()),
        "constants" => Some(object.constants.to_bytes()),
        "shadow_constants" => Some(object.shadow_constants.to_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_documented_lengths() {
        let scenes = Scenes::new();
        let part = |name: &str| {
            let content = Content { name: name.into(), width: 160, height: 90 };
            scenes.part(&content).map(|bytes| bytes.len())
        };
        for object in ["floor", "knot", "pearls", "boulder"] {
            assert_eq!(part(&format!("frame/{object}/constants")), Some(160));
            assert_eq!(part(&format!("frame/{object}/shadow_constants")), Some(160));
            assert_eq!(part(&format!("frame/{object}/vertices")).unwrap() % 40, 0);
            assert_eq!(part(&format!("frame/{object}/indices")).unwrap() % 12, 0);
        }
        assert_eq!(part("frame/shade_constants"), Some(704));
        assert_eq!(part("frame/knot/texture"), Some(349_524));
        for unknown in ["frame/knot", "frame/dragon/vertices", "knot/vertices", "frame/knot/uv"] {
            assert_eq!(part(unknown), None, "{unknown}");
        }
    }
}
