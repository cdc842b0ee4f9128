//! Matrices and cameras: how vertices and constants get their numbers.
//!
//! World space is right-handed with y up. Clip space is that of Direct3D: x and y in -w..w with y
//! up, z in 0..w from the near to the far plane, and w is the distance along the direction of view.

/// Four rows of four; applied to column vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matrix(
    /// The rows.
    pub [[f32; 4]; 4],
);

impl Matrix {
    /// The matrix that changes nothing.
    pub const IDENTITY: Self = Self([
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ]);

    /// Moves by `offset`.
    #[must_use]
    pub fn translation(offset: [f32; 3]) -> Self {
        let mut matrix = Self::IDENTITY;
        for (row, offset) in matrix.0.iter_mut().zip(offset) {
            row[3] = offset;
        }
        matrix
    }

    /// Scales evenly.
    #[must_use]
    pub fn scale(factor: f32) -> Self {
        let mut matrix = Self::IDENTITY;
        for axis in 0..3 {
            matrix.0[axis][axis] = factor;
        }
        matrix
    }

    /// Turns about the x axis by `angle` radians.
    #[must_use]
    pub fn rotation_x(angle: f32) -> Self {
        let (sine, cosine) = sine_cosine(angle);
        Self([
            [1.0, 0.0, 0.0, 0.0],
            [0.0, cosine, -sine, 0.0],
            [0.0, sine, cosine, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ])
    }

    /// Turns about the y axis by `angle` radians.
    #[must_use]
    pub fn rotation_y(angle: f32) -> Self {
        let (sine, cosine) = sine_cosine(angle);
        Self([
            [cosine, 0.0, sine, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [-sine, 0.0, cosine, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ])
    }

    /// The matrix that applies `first` and then this one.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        Self(std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                (0..4).map(|inner| self.0[row][inner] * first.0[inner][column]).sum()
            })
        }))
    }

    /// Applies the matrix to a point.
    #[must_use]
    pub fn apply(&self, point: [f32; 4]) -> [f32; 4] {
        self.0.map(|row| {
            row[0] * point[0] + row[1] * point[1] + row[2] * point[2] + row[3] * point[3]
        })
    }

    /// Applies the 3 by 3 part to a direction.
    #[must_use]
    pub fn turn(&self, direction: [f32; 3]) -> [f32; 3] {
        [0, 1, 2].map(|row| dot([self.0[row][0], self.0[row][1], self.0[row][2]], direction))
    }
}

/// A camera position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Camera {
    /// Where the eye is.
    pub eye: [f32; 3],
    /// The point that it faces.
    pub target: [f32; 3],
    /// Height of the view at distance 1, divided by 2: the tangent of half the angle of view.
    pub half_height: f32,
    /// Width of the image divided by its height.
    pub aspect: f32,
    /// Distance of the near plane.
    pub near: f32,
    /// Distance of the far plane.
    pub far: f32,
}

impl Camera {
    /// World space to clip space, in perspective.
    #[must_use]
    pub fn clip_from_world(&self) -> Matrix {
        let depth = self.far / (self.far - self.near);
        let lens = Matrix([
            [1.0 / (self.half_height * self.aspect), 0.0, 0.0, 0.0],
            [0.0, 1.0 / self.half_height, 0.0, 0.0],
            [0.0, 0.0, depth, -depth * self.near],
            [0.0, 0.0, 1.0, 0.0],
        ]);
        lens.after(&self.view())
    }

    /// World space to clip space, in parallel projection: the view of a sun. `half_height` is half
    /// the height of what is seen at any distance.
    #[must_use]
    pub fn parallel_clip_from_world(&self) -> Matrix {
        let depth = 1.0 / (self.far - self.near);
        let lens = Matrix([
            [1.0 / (self.half_height * self.aspect), 0.0, 0.0, 0.0],
            [0.0, 1.0 / self.half_height, 0.0, 0.0],
            [0.0, 0.0, depth, -depth * self.near],
            [0.0, 0.0, 0.0, 1.0],
        ]);
        lens.after(&self.view())
    }

    /// Right, up and forward, each of length 1.
    #[must_use]
    pub fn axes(&self) -> [[f32; 3]; 3] {
        let forward = normalised(difference(self.target, self.eye));
        // A view straight up or down has no right hand of its own.
        let vertical = forward[0].abs() + forward[2].abs() < 1e-6;
        let right =
            normalised(cross(forward, if vertical { [0.0, 0.0, -1.0] } else { [0.0, 1.0, 0.0] }));
        [right, cross(right, forward), forward]
    }

    /// World space to the space of the eye: x to the right, y up, z forward.
    fn view(&self) -> Matrix {
        let [right, up, forward] = self.axes();
        let row = |axis: [f32; 3]| [axis[0], axis[1], axis[2], -dot(axis, self.eye)];
        Matrix([row(right), row(up), row(forward), [0.0, 0.0, 0.0, 1.0]])
    }
}

/// Sine and cosine, worked out in double precision: after rounding, what is left of the difference
/// between one mathematical library and another is almost never seen.
pub(super) fn sine_cosine(angle: f32) -> (f32, f32) {
    let (sine, cosine) = f64::from(angle).sin_cos();
    (sine as f32, cosine as f32)
}

pub(super) fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(super) fn difference(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

/// `a + b * factor`.
pub(super) fn along(a: [f32; 3], b: [f32; 3], factor: f32) -> [f32; 3] {
    std::array::from_fn(|axis| a[axis] + b[axis] * factor)
}

/// The direction of `vector`; a vector without length stays as it is.
pub(super) fn normalised(vector: [f32; 3]) -> [f32; 3] {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 { vector.map(|axis| axis / length) } else { vector }
}
