// Pins the k3s of `powertrain cluster up --k3s`: this version is the commit that k3s tagged v1.35.0+k3s1.
// k3s is built as a main module of its own, because its replace directives count only there.
module powertrain.io/hack/k3s

go 1.26.0

require github.com/k3s-io/k3s v1.35.0-rc1.0.20251218152248-a6c6cd15c0c4
