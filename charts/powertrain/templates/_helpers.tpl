{{/* Names, labels and images that several templates share. */}}

{{- define "powertrain.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Names of objects begin with the release's name; short enough that every suffix below still fits. */}}
{{- define "powertrain.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "powertrain.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "powertrain.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "powertrain.selector" -}}
app.kubernetes.io/name: {{ include "powertrain.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "powertrain.labels" -}}
{{ include "powertrain.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "powertrain.operatorAccount" -}}
{{- default (printf "%s-operator" (include "powertrain.fullname" .)) .Values.operator.serviceAccount.name -}}
{{- end -}}

{{- define "powertrain.agentAccount" -}}
{{- default (printf "%s-agent" (include "powertrain.fullname" .)) .Values.agent.serviceAccount.name -}}
{{- end -}}

{{- define "powertrain.uninstallAccount" -}}
{{- printf "%s-uninstall" (include "powertrain.fullname" .) -}}
{{- end -}}

{{/* The operator looks for this name: it is the cluster's, whatever a release is called. */}}
{{- define "powertrain.clusterLease" -}}
powertrain-operator
{{- end -}}

{{/* An image: the registry for all, a repository, and a digest, a tag of its own or the one for all. */}}
{{- define "powertrain.image" -}}
{{- $global := .root.Values.image -}}
{{- include "powertrain.imageSource" (dict "root" .root "digest" .image.digest) -}}
{{- $repository := .image.repository -}}
{{- if $global.registry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" $global.registry) $repository -}}
{{- end -}}
{{- $tag := default (default .root.Chart.AppVersion $global.tag) .image.tag -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s%s" $repository $tag (default "" .suffix) -}}
{{- end -}}
{{- end -}}

{{/* Fails where no node could find the images, and says what to do. */}}
{{- define "powertrain.imageSource" -}}
{{- $global := .root.Values.image -}}
{{- $manual := "docs/how-to/install.md, or the page Install of the documentation, shows both ways" -}}
{{- if and (not $global.registry) (not $global.local) -}}
{{- fail (printf "\n\nimage.registry and image.local are empty, so no node can find the images. Take the image archives of the release, then either\n  powertrain images import ARCHIVE... --ssh NODE,NODE   and   --set image.local=true\nor\n  powertrain images push ARCHIVE... --registry HOST:PORT/PATH   and   --set image.registry=HOST:PORT/PATH\n(%s)\n" $manual) -}}
{{- else if and $global.registry $global.local -}}
{{- fail "image.local means that nodes have the images, and image.registry that they pull them: set one of them" -}}
{{- else if and $global.local .digest -}}
{{- fail "image.local: images that were imported have no digest that a node could find; leave out the digests" -}}
{{- end -}}
{{- end -}}

{{- define "powertrain.pullPolicy" -}}
{{- ternary "Never" .Values.image.pullPolicy .Values.image.local -}}
{{- end -}}

{{- define "powertrain.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What no container of ours needs. */}}
{{- define "powertrain.confined" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "powertrain.priorityClass" -}}
{{- if .Values.priorityClass.create -}}
{{- default (include "powertrain.fullname" .) .Values.priorityClass.name -}}
{{- else -}}
{{- .Values.priorityClass.name -}}
{{- end -}}
{{- end -}}

{{/* Probes of the health endpoint; a silent part is only cured by a new process. */}}
{{- define "powertrain.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}
