module powertrain.io/images/pause

go 1.22
