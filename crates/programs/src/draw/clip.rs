//! Clips triangles at the near plane and at a guard band.
//!
//! The guard band keeps screen coordinates in the range of exact coverage: 128 times the target in
//! each direction, at most 2^20 pixels. Triangles are not clipped at the sides of the target; the
//! rasteriser skips pixels outside, which costs nothing and moves no corner.

/// Number of values interpolated over a triangle: normal, texture coordinates, linear colour.
pub(super) const ATTRIBUTES: usize = 8;

/// Corner of a triangle after the vertex stage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Corner {
    pub(super) clip: [f32; 4],
    pub(super) attributes: [f32; ATTRIBUTES],
}

/// Guard band: the largest |x| and |y| as a factor of w.
const BAND: f32 = 128.0;

/// Signed distance of a corner from each plane, negative outside.
const PLANES: [fn(&Corner) -> f32; 5] = [
    |corner| corner.clip[2],
    |corner| BAND * corner.clip[3] + corner.clip[0],
    |corner| BAND * corner.clip[3] - corner.clip[0],
    |corner| BAND * corner.clip[3] + corner.clip[1],
    |corner| BAND * corner.clip[3] - corner.clip[1],
];

/// Returns the parts of a triangle inside of the planes. A triangle with a corner that is NaN, or
/// that reaches the eye, has none.
pub(super) fn clip(corners: [Corner; 3]) -> impl Iterator<Item = [Corner; 3]> {
    let mut polygon: Vec<Corner> = corners.to_vec();
    if corners.iter().any(|corner| corner.clip.iter().any(|number| !number.is_finite())) {
        polygon.clear();
    }
    for distance in PLANES {
        if polygon.iter().any(|corner| distance(corner) < 0.0) {
            polygon = cut(&polygon, distance);
        }
    }
    if polygon.iter().any(|corner| corner.clip[3] <= f32::MIN_POSITIVE) {
        polygon.clear();
    }
    (2..polygon.len()).map(move |last| [polygon[0], polygon[last - 1], polygon[last]])
}

fn cut(polygon: &[Corner], distance: fn(&Corner) -> f32) -> Vec<Corner> {
    let mut kept = Vec::with_capacity(polygon.len() + 1);
    for (index, corner) in polygon.iter().enumerate() {
        let next = &polygon[(index + 1) % polygon.len()];
        let (here, there) = (distance(corner), distance(next));
        if here >= 0.0 {
            kept.push(*corner);
        }
        if (here < 0.0) != (there < 0.0) {
            // Always from the inner to the outer corner, so that two triangles with a common edge
            // get the same point.
            kept.push(if here >= 0.0 {
                between(corner, next, here / (here - there))
            } else {
                between(next, corner, there / (there - here))
            });
        }
    }
    kept
}

fn between(from: &Corner, to: &Corner, share: f32) -> Corner {
    let mix = |from: f32, to: f32| from + (to - from) * share;
    Corner {
        clip: std::array::from_fn(|index| mix(from.clip[index], to.clip[index])),
        attributes: std::array::from_fn(|index| mix(from.attributes[index], to.attributes[index])),
    }
}
