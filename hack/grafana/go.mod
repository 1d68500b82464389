// Pins the Grafana of `make dashboards-preview`: this version is a commit of Grafana's 10.0 line.
// Grafana is built as a main module of its own, because its replace directives count only there.
module powertrain.io/hack/grafana

go 1.26.0

require github.com/grafana/grafana v1.9.2-0.20230609164553-81d85ce8028d
